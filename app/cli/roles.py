"""The commands of the roles, made from the fields of their settings: `berth webhook`, `berth certs keep` and others.

The settings are imported when a command is used, so that the list of commands loads no role.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Annotated, Any, cast

import typer
import typer.main

from app.cli.options import PanelCommand, option, paragraphs
from app.registry import settings_of
from app.settings.flags import LOGS, flag_names, flags_of, help_of, parsed_type
from app.settings.source import RoleSettings
from app.wiring import Role, resolve

_ENVIRONMENT = """Environment: BERTH_ and the flag in capitals stand for every flag, lists with commas
(BERTH_LOG_LEVEL=debug). A flag beats the environment."""
_STATUS = "Exit status: 0 after a drained stop, 1 after a fault or a stop before that, 2 for a wrong flag or file."


def add_role(app: typer.Typer, role: Role) -> None:
    """Add the command of a role to a group of commands."""
    command = type("Command", (RoleCommand,), {"role": role})
    app.command(role.command[-1], cls=command, help=role.summary, epilog=_epilog(role))(_nothing)


class RoleCommand(PanelCommand):
    """A command whose options are the fields of a role's settings."""

    role: Role

    @property
    def params(self) -> list[Any]:
        """The options; the first use imports the settings."""
        return _options(self.role)

    @params.setter
    def params(self, given: list[Any]) -> None:
        """What Typer finds by itself is nothing."""

    def invoke(self, ctx: Any) -> int:
        """Run the role with what flags, environment and defaults say. Raises UsageError for what is wrong there."""
        settings = settings_of(self.role.name).load(given(self.role, ctx.params))
        if self.role.run:
            return cast("int", resolve(self.role.run)(settings))
        from app.runtime.background import run_role  # noqa: PLC0415  with it comes the client

        return run_role(self.role, settings)


def given(role: Role, values: dict[str, Any]) -> dict[str, object]:
    """The fields that the options of a command give; those that the user did not type are absent."""
    fields = settings_of(role.name).model_fields
    typed = {name: value for name, value in values.items() if name in fields and value not in (None, ())}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in typed.items()}


def option_of(settings: type[RoleSettings], field: str, *, panel: str = "") -> typer.models.OptionInfo:
    """The option of one field; `panel` is where it stands, if not where the field says."""
    flag, info = flags_of(settings)[field], settings.model_fields[field]
    names = flag_names(field, flag)
    if parsed_type(info, flag) is bool:
        names = tuple(f"{name}/--no-{name.removeprefix('--')}" for name in names)
    return option(*names, panel=panel or flag.panel, text=help_of(info, flag))


@cache
def _options(role: Role) -> list[Any]:
    """What Typer makes of a function with a parameter for each field."""
    settings = settings_of(role.name)
    parameters: dict[str, Any] = {}
    for field, flag in flags_of(settings).items():
        parameters[field] = Annotated[
            parsed_type(settings.model_fields[field], flag) | None,
            option_of(settings, field),
        ]
    for number, name in enumerate(role.ignored):
        kind: Any = bool if "/" in name else str
        parameters[f"ignored_{number}"] = Annotated[kind | None, option(name, panel=LOGS, text="", hidden=True)]

    def command(**_values: object) -> None: ...

    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in parameters.items()
        ]
    )
    command.__annotations__ = parameters
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return list(typer.main.get_command(app).params)


def _epilog(role: Role) -> str:
    examples = "\n\n".join(f"  {example}" for example in role.examples)
    return paragraphs("\n\n".join(filter(None, ("Examples:", examples, role.notes, _ENVIRONMENT, _STATUS))))


def _nothing() -> None:
    """What Typer asks for; the command itself runs the role."""
