"""The commands of the roles, made from the fields of their settings: `berth webhook`, `berth certificates` and others.

Making a command imports the settings of its role.
"""

from __future__ import annotations

import app.logs  # noqa: F401  first: it imports structlog without what no role uses of it

# isort: split
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from app.cli import completing, options
from app.cli.options import PlainCommand, alone, epilog
from app.registry import settings_of
from app.settings.source import RoleSettings, flag_names, flags_of, help_of, parsed_type
from app.wiring import Role

_ENVIRONMENT = """Environment: every flag has a variable, BERTH_ and its name in capitals (BERTH_LOG_LEVEL=debug);
lists have commas. A flag beats its variable.

"""
EXIT_STATUS = (
    "Exit status: 0 after a stop that was drained, 1 after a fault or another stop, 2 for a wrong flag or file."
)


def role_app(role: Role) -> typer.Typer:
    """The command of a role."""
    app = alone()
    command = type("Command", (RoleCommand,), {"role": role})
    text = epilog(*role.examples, text=f"{role.notes}\n\n{_ENVIRONMENT}{EXIT_STATUS}")
    app.command(role.name, cls=command, help=role.summary, epilog=text)(_running(role))
    return app


class RoleCommand(PlainCommand):
    """A command whose options are the fields of a role's settings."""

    role: Role


def given(role: Role, values: dict[str, Any]) -> dict[str, object]:
    """The fields that the options of a command give; those that the user did not type are absent."""
    fields = settings_of(role.name).model_fields
    typed = {name: value for name, value in values.items() if name in fields and value not in (None, ())}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in typed.items()}


def as_webhook(field: str) -> typer.models.OptionInfo:
    """The option of another command for one flag of the webhook."""
    return option_of(settings_of("webhook"), field, panel="Injection (as berth webhook)")


def option_of(settings: type[RoleSettings], field: str, *, panel: str = "") -> typer.models.OptionInfo:
    """The option of one field; `panel` is where it stands, if not where the field says."""
    flag, info = flags_of(settings)[field], settings.model_fields[field]
    names, choices = flag_names(field, flag), _choices(info) or flag.choices
    if parsed_type(info, flag) is bool:
        names = tuple(f"{name}/--no-{name.removeprefix('--')}" for name in names)
    option: typer.models.OptionInfo = typer.Option(
        *names,
        help=help_of(info, flag),
        metavar=flag.metavar or options.one_of(choices) or None,
        autocompletion=completing.among(choices) if choices else None,
        rich_help_panel=panel or flag.panel,
        show_default=False,
    )
    return option


def _choices(info: FieldInfo) -> tuple[str, ...]:
    return get_args(info.annotation) if get_origin(info.annotation) is Literal else ()


def _running(role: Role) -> Callable[..., int]:
    """What Typer makes a command of: it has a parameter for each field of the settings."""
    settings = settings_of(role.name)
    parameters: dict[str, Any] = {
        field: Annotated[parsed_type(settings.model_fields[field], flag) | None, option_of(settings, field)]
        for field, flag in flags_of(settings).items()
    }
    for number, name in enumerate(role.ignored):
        kind: Any = bool if "/" in name else str
        parameters[f"ignored_{number}"] = Annotated[kind | None, typer.Option(name, hidden=True)]

    def run(**values: Any) -> int:
        # Loaded before the servers, which come with the next import: a wrong flag is said at once.
        chosen = settings.load(given(role, values))
        from app.runtime.process import run_role  # noqa: PLC0415

        return run_role(role, chosen)

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in parameters.items()
        ]
    )
    run.__annotations__ = parameters
    return run
