"""The one reader of flags, environment and defaults, whatever the role.

A flag beats its environment variable (`BERTH_` and the field's name; lists with commas; empty counts as unset), which
beats the default. A mistake becomes one line that names the flag or the variable by which it was given.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.errors import UsageError
from app.kube.names import check_dns_label, check_dns_subdomain
from app.settings.flags import CLUSTER, LOGS, SERVING, Flag, flag_names, flags_of


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
DnsSubdomain = Annotated[str, AfterValidator(check_dns_subdomain)]
NotEmpty = Annotated[str, AfterValidator(_not_empty)]
Items = Annotated[tuple[str, ...], NoDecode, BeforeValidator(comma_list)]
"""A list: one element for each time that the flag is given, or a text with commas."""


class _Environment(EnvSettingsSource):
    """The environment without what Kubernetes puts there by itself.

    For a Service named `berth`, every Pod beside it gets BERTH_PORT=tcp://10.0.0.1:443, which is no port of ours.
    """

    def __call__(self) -> dict[str, Any]:
        found = super().__call__()
        return {name: value for name, value in found.items() if not _is_service_link(value)}


def _is_service_link(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("tcp://", "udp://", "sctp://"))


class RoleSettings(BaseSettings):
    """The settings of every role. Times are in seconds; port 0 takes a free port, which the log names."""

    model_config = SettingsConfigDict(
        env_prefix="BERTH_", extra="forbid", frozen=True, populate_by_name=True, env_ignore_empty=True
    )

    bind_address: Annotated[NotEmpty, Flag("Address of every server of the role", SERVING)] = "0.0.0.0"  # noqa: S104  a role serves the cluster's network
    health_check_port: Annotated[Port, Flag("Plain port of /healthz, /readyz, /metrics", SERVING)] = 8444
    kubeconfig: Annotated[str | None, Flag("Kubeconfig of the role's cluster", CLUSTER, default="in-cluster")] = None
    context: Annotated[str | None, Flag("Context of the kubeconfig", CLUSTER)] = None
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Flag("debug, info, warning or error", LOGS)] = (
        "info"
    )

    @classmethod
    def load(cls, given: dict[str, object], *, environment: bool = True) -> Self:
        """The settings from the flags that were given, the environment (unless that is left out) and the defaults.

        Raises UsageError with one line that names each flag that is wrong.
        """
        chosen = cls if environment else _flags_alone(cls)
        try:
            return chosen(**given)  # type: ignore[arg-type]  # pydantic checks what Typer parsed
        except ValidationError as error:
            lines = [_line(cls, item["loc"], item["msg"], given) for item in error.errors(include_url=False)]
            raise UsageError("; ".join(lines)) from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the signature is the library's
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _Environment(settings_cls)


S = TypeVar("S", bound=RoleSettings)


def settings_as(settings: RoleSettings, kind: type[S]) -> S:
    """The settings of a role as those of a wing that adds to them. Raises TypeError where it does not."""
    if not isinstance(settings, kind):
        raise TypeError(f"{type(settings).__name__} has no {kind.__name__}")
    return settings


def _flags_alone(settings: type[S]) -> type[S]:
    """The settings of a role from flags alone: the environment of this process does not apply to that role."""

    def flags(
        _cls: type[BaseSettings],
        _settings: type[BaseSettings],
        /,
        *,
        init_settings: PydanticBaseSettingsSource,
        **_others: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)

    methods = {"settings_customise_sources": classmethod(flags)}
    return type(settings.__name__, (settings,), methods)


def _line(settings: type[RoleSettings], location: tuple[int | str, ...], message: str, given: dict[str, object]) -> str:
    """One mistake, under the name by which the user gave the value: the environment variable, or the flag.

    What was not given at all is asked for by its flag.
    """
    text = message.removeprefix("Value error, ")
    if not location:
        return text
    name = str(location[0]).lower().removeprefix("berth_")
    present = {key.upper() for key, value in os.environ.items() if value}
    variables = (f"BERTH_{name.upper()}", *(("NAMESPACE",) if name == "namespace" else ()))
    variable = next((known for known in variables if known in present), "")
    flag, *_ = flag_names(name, flags_of(settings)[name])
    return f"{flag if name in given or not variable else variable}: {text}"
