"""flags.md: every command with its arguments and flags; the roles' with environment variables and defaults."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import typer.main
from pydantic.fields import FieldInfo

from app.cli.main import cli
from app.cli.roles import RoleCommand
from app.registry import settings_of
from app.settings.source import RoleSettings, variables
from docs.generate.texts import MissingTextError, Page, code, codes, help_text, page, prose, table

_DEFAULT = re.compile(r"\s*\(default: ((?:[^()]|\([^()]*\))+)\)")
_PROGRAM = "berth"
_OWN_NAMES = {"own_namespace": "namespace"}
"""Parameters of a command that have another name than the field of the settings that they go to."""
_INTRO = """\
A flag beats its environment variable, which beats the default; a variable that is empty counts as unset. Variables
hold lists with commas. `berth webhook`, `certs` and `certificates` take flags with one dash too, as Go programs do;
every command takes switches with `=true` and `=false`."""


def flags_page() -> Page:
    sections = [_section(path, command) for path, command in commands()]
    return page("docs/reference/flags.md", "Commands and flags", _INTRO, *sections)


@functools.cache
def commands() -> tuple[tuple[tuple[str, ...], Any], ...]:
    """Every command that is shown, by its words (`("berth", "certs", "make")`), in the order of the help."""
    return tuple(_walk((_PROGRAM,), typer.main.get_command(cli)))


def shown(command: Any) -> list[Any]:
    """The arguments and flags of a command that its help shows."""
    return [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]


def settings_fields(command: Any) -> dict[str, FieldInfo]:
    """The fields of the role's settings, by the names of the command's parameters; nothing for other commands."""
    if isinstance(command, RoleCommand):
        return settings_of(command.role.name).model_fields
    if command.name == "explain":
        names = {parameter.name for parameter in command.params} - {"namespace", *RoleSettings.model_fields}
        known = settings_of("webhook").model_fields
        return {name: field for name, field in known.items() if name in names} | {"own_namespace": known["namespace"]}
    return {}


def said_default(help_line: str) -> str:
    """What the help says the default is; "" where it says nothing."""
    found = _DEFAULT.search(help_line)
    return found[1] if found else ""


def _walk(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from _walk((*path, name), below)


def _section(path: tuple[str, ...], command: Any) -> str:
    fields = settings_fields(command)
    heading = f"## {' '.join(path)}"
    blocks = [heading, help_text(inspect.cleandoc(command.help or "")), help_text(command.epilog or "")]
    rows = [_row(path, parameter, fields) for parameter in shown(command)]
    if fields:
        blocks.append(table(("Flag", "Variable", "Default", "Text"), rows))
    else:
        blocks.append(table(("Flag", "Default", "Text"), [(flag, default, text) for flag, _, default, text in rows]))
    ignored = [name for p in command.params if getattr(p, "hidden", False) for name in p.opts]
    if ignored:
        blocks.append(f"Accepted and ignored, for Deployments that have them: {codes(ignored)}.")
    return "\n\n".join(block for block in blocks if block)


def _row(path: tuple[str, ...], parameter: Any, fields: Mapping[str, FieldInfo]) -> tuple[str, str, str, str]:
    text = parameter.help or ""
    if not text:
        raise MissingTextError(f"{' '.join(path)}: {parameter.opts[0]} has no help")
    field = fields.get(parameter.name)
    known = variables(_OWN_NAMES.get(parameter.name, parameter.name), field) if field is not None else []
    default = _default(parameter, field, said_default(text))
    return _names(parameter), codes(known), default, prose(_DEFAULT.sub("", text)) + _choices(parameter)


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
        return code(name if parameter.required else f"[{name.removeprefix('[').removesuffix(']')}]")
    return codes((*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any, field: FieldInfo | None, said: str) -> str:
    value = field.default if field is not None else parameter.default
    if said:
        # A literal is typed as it stands; anything else is told in words.
        return code(said) if said in {_typed(value), str(value)} or _is_literal(said) else prose(said)
    if parameter.param_type_name == "argument" and parameter.required:
        return ""
    return code(_typed(value))


def _is_literal(said: str) -> bool:
    return bool(re.fullmatch(r"[\w./:-]+", said)) and said not in {"on", "off", "any", "all", "in-cluster"}


def _typed(value: object) -> str:
    """A default as the user would type it."""
    match value:
        case None | "" | () | []:
            return ""
        case bool():
            return "on" if value else "off"
        case tuple() | list():
            return ",".join(map(str, value))
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)


def _choices(parameter: Any) -> str:
    annotation = parameter.type_descriptor.annotation
    if typing.get_origin(annotation) is not Literal:
        words = re.fullmatch(r"<(.+)>", parameter.metavar or "")
        return f"; one of {codes(words[1].split('|'))}" if words else ""
    return f"; one of {codes(map(str, typing.get_args(annotation)))}"
