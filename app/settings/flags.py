"""How a field of a role's settings is typed on the command line: written once, beside the field.

Command line, reference and doctor read it from there. The type, the default and the environment variable are the
field's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

SERVING, TLS, CLUSTER, LOGS = "Serving", "TLS", "Cluster", "Logs"
PLACEMENT, RECONCILING = "Placement and tenants", "Reconciling"
"""Panels of the help that several roles have."""


@dataclass(frozen=True, slots=True)
class Flag:
    """The flag of a field: what it means, and the panel of the help in which it stands.

    `names` are its spellings where they are not made from the field's name. `default` is what the help says the
    default is, where that is not the field's own default. A `repeatable` flag adds one element each time.
    """

    text: str
    panel: str
    names: tuple[str, ...] = ()
    default: str | None = None
    repeatable: bool = False


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
    found = next((item for item in field.metadata if isinstance(item, Flag)), None)
    if found is None:
        raise TypeError(f"settings field {name} has no Flag beside it")
    return found
