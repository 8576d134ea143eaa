"""How the commands of the roles declare their options: without defaults, which the settings have, and in panels."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

ABSENT = None
"""The default of every option: what was not given is not told to the settings."""


class RoleCommand(TyperCommand):
    """Leaves the `--no-…` twin of each switch out of the help, where it would squeeze everything else."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        twins = [(param, param.secondary_opts) for param in self.params]
        for param, _ in twins:
            param.secondary_opts = []
        try:
            super().format_help(ctx, formatter)
        finally:
            for param, names in twins:
                param.secondary_opts = names


def option(*names: str, panel: str, text: str, hidden: bool = False) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        *names, help=text, rich_help_panel=panel, hidden=hidden, show_default=False
    )
    return option


def given(values: dict[str, Any]) -> dict[str, object]:
    """The options that the user gave, by their fields."""
    return {name: value for name, value in values.items() if value is not None and not name.startswith("_")}
