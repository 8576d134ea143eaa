"""The settings of roles: fields with their flags, and the one reader of flags, environment and defaults.

How a field is typed on the command line is written once, beside the field: command line, reference and doctor read it
from there. Its type, default and environment variable are the field's own.

A flag beats its environment variable (`BERTH_` and the field's name; lists with commas; empty counts as unset), which
beats the default. A mistake becomes one line that names the flag or the variable by which it was given.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo

from app.errors import UsageError
from app.kube.names import check_dns_label, check_dns_subdomain
from app.text import quoted, wanted
from app.wiring import CLUSTER_RULE

SERVING, TLS, CLUSTER, LOGS = "Serving", "TLS", "Cluster", "Logs"
PLACEMENT, RECONCILING = "Placement and tenants", "Reconciling"
"""Panels of the help that several roles have."""


@dataclass(frozen=True, slots=True)
class Flag:
    """The flag of a field: what it means, and the panel of the help in which it stands.

    `names` are its spellings where they are not made from the field's name. `default` is what the help says the
    default is, where that is not the field's own default. A `repeatable` flag adds one element each time. `metavar` is
    what the help calls the value ("": its type). `choices` are the values that help and shell offer, of a field whose
    type does not have them.
    """

    text: str
    panel: str
    names: tuple[str, ...] = ()
    default: str | None = None
    repeatable: bool = False
    metavar: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Two fields that cannot both be given. `second_value` is the only value of the second that contradicts, if any."""

    first: str
    second: str
    why: str
    second_value: object = None


def _not_empty(value: str) -> str:
    if value == "":
        raise ValueError("want a value, got an empty string")
    return value


def comma_list(value: object) -> object:
    """For validators: a text with commas becomes a tuple; anything else stays."""
    return tuple(item.strip() for item in value.split(",") if item.strip()) if isinstance(value, str) else value


def _port(value: int) -> int:
    # Below 1024 the kernel has the last word: a container may have NET_BIND_SERVICE. 0 takes a free port.
    if not 0 <= value <= 65535:
        raise ValueError("invalid port number. Choose between 1 and 65535")
    return value


Port = Annotated[int, AfterValidator(_port)]
DnsLabel = Annotated[str, AfterValidator(check_dns_label)]
DnsLabelOrNone = Annotated[str, AfterValidator(lambda name: name and check_dns_label(name))]
"""A DNS label, or "" for none."""
DnsSubdomain = Annotated[str, AfterValidator(check_dns_subdomain)]
NotEmpty = Annotated[str, AfterValidator(_not_empty)]
Items = Annotated[tuple[str, ...], BeforeValidator(comma_list)]
"""A list: one element for each time that the flag is given, or a text with commas."""


def _named(value: object) -> object:
    names = comma_list(value)
    if value != () and not any(item.strip() for item in (names if isinstance(names, tuple | list) else ())):
        raise ValueError("want at least one name; leave it out for any")
    return names


Names = Annotated[tuple[str, ...], BeforeValidator(_named)]
"""The same, where a value without a name would mean all names: it is refused."""

_SERVICE_LINKS = ("tcp://", "udp://", "sctp://")
"""How values begin that Kubernetes sets by itself: for a Service named `berth`, every Pod beside it gets
BERTH_PORT=tcp://10.0.0.1:443, which is not a port of ours."""


class RoleSettings(BaseModel):
    """The settings of every role. Times are in seconds; port 0 takes a free port, which the log names."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, validate_default=True, loc_by_alias=False
    )

    exclusions: ClassVar[tuple[Exclusion, ...]] = ()
    """Those of a class; a role has those of all its classes. A field that has its default is not given."""

    bind_address: Annotated[NotEmpty, Flag("Address of every server of the role", SERVING)] = "0.0.0.0"  # noqa: S104  a role serves the cluster's network
    health_check_port: Annotated[Port, Flag("Plain port of /livez, /healthz, /readyz, /metrics", SERVING)] = 8444
    kubeconfig: Annotated[str | None, Flag("Kubeconfig of the cluster", CLUSTER, default=CLUSTER_RULE)] = None
    context: Annotated[str | None, Flag("Context of the kubeconfig", CLUSTER, default="its current one")] = None
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Flag("Lowest level that is logged", LOGS)] = (
        "info"
    )

    @property
    def level(self) -> str:
        """The lowest level that is logged."""
        return self.log_level

    @model_validator(mode="after")
    def _exclusive(self) -> Self:
        exclusions = dict.fromkeys(
            exclusion for cls in type(self).__mro__ for exclusion in vars(cls).get("exclusions", ())
        )
        flags = flags_of(type(self))
        for exclusion in exclusions:
            value = getattr(self, exclusion.second)
            if (
                self._is_given(exclusion.first)
                and self._is_given(exclusion.second)
                and exclusion.second_value in (None, value)
            ):
                names = [flag_names(name, flags[name])[0] for name in (exclusion.first, exclusion.second)]
                shown = names[1] if exclusion.second_value is None else f"{names[1]}={value}"
                raise ValueError(f"{names[0]} and {shown} exclude each other: {exclusion.why}")
        return self

    def _is_given(self, name: str) -> bool:
        return name in self.model_fields_set and getattr(self, name) != type(self).model_fields[name].default

    @classmethod
    def load(cls, given: dict[str, object], *, environment: bool = True) -> Self:
        """The settings from the flags that were given, the environment (unless that is left out) and the defaults.

        Raises UsageError with one line that names each flag that is wrong.
        """
        environment_values = _environment(cls) if environment else {}
        try:
            values = {
                name: value for name, (_, value) in environment_values.items() if not value.startswith(_SERVICE_LINKS)
            }
            return cls.model_validate(values | given)
        except ValidationError as error:
            names = {name: flag_names(name, flag)[0] for name, flag in flags_of(cls).items()}
            names |= {name: variable for name, (variable, _) in environment_values.items() if name not in given}
            lines = []
            for item in error.errors(include_url=False):
                text = wanted(item)
                if item["type"] != "value_error":
                    text += f", got {quoted(str(item['input']))}"
                lines.append(f"{names[str(item['loc'][0])]}: {text}" if item["loc"] else text)
            raise UsageError("; ".join(lines)) from error


def flags_of(settings: type[BaseModel]) -> dict[str, Flag]:
    """The flags by field: those of the class itself, of its last base (the role's own settings), and of the others."""
    names = dict.fromkeys(
        name
        for cls in (settings, settings.__bases__[-1], *settings.__mro__)
        for name in vars(cls).get("__annotations__", ())
        if name in settings.model_fields
    )
    return {name: _flag(name, settings.model_fields[name]) for name in names}


def flag_names(field: str, flag: Flag) -> tuple[str, ...]:
    """The spellings of a flag, the first one being the flag's name."""
    return flag.names or (f"--{field.replace('_', '-')}",)


def help_of(field: FieldInfo, flag: Flag) -> str:
    """The text with the default, where there is one to tell."""
    default = typed(field.default) if flag.default is None else flag.default
    return f"{flag.text} (default: {default})" if default else flag.text


def typed(value: object) -> str:
    """A default as a user would type it; "" for nothing, and for a switch that is off."""
    match value:
        case None | False:
            return ""
        case True:
            return "on"
        case tuple():
            return ",".join(map(str, value))
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def parsed_type(field: FieldInfo, flag: Flag) -> type:
    """What the command line makes of a value; the settings check the rest."""
    annotation = field.annotation
    if flag.repeatable:
        return list[str]
    for kind in (bool, int, float):
        if annotation is kind or (get_origin(annotation) is not None and get_args(annotation)[:1] == (kind,)):
            return kind
    return str


def _flag(name: str, field: FieldInfo) -> Flag:
    flag = next((item for item in field.metadata if isinstance(item, Flag)), None)
    if flag is None:
        raise TypeError(f"settings field {name} has no Flag beside it")
    return flag


S = TypeVar("S", bound=RoleSettings)


def settings_as(settings: RoleSettings, kind: type[S]) -> S:
    """The settings of a role as those of a wing that adds to them. Raises TypeError where it does not."""
    if not isinstance(settings, kind):
        raise TypeError(f"{type(settings).__name__} has no {kind.__name__}")
    return settings


def variables(name: str, field: FieldInfo) -> list[str]:
    """The environment variables of a field of the settings, the one that wins first."""
    aliases: list[str] = getattr(field.validation_alias, "choices", [])
    return aliases or [f"BERTH_{name.upper()}"]


def _environment(settings: type[RoleSettings]) -> dict[str, tuple[str, str]]:
    """What the environment holds, by field: the variable and its value."""
    given = {name.upper(): value for name, value in os.environ.items() if value}
    values = {}
    for name, field in settings.model_fields.items():
        variable = next((variable for variable in variables(name, field) if variable in given), None)
        if variable is not None:
            values[name] = variable, given[variable]
    return values
