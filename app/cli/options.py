"""What commands have alike: options in panels, switches whose `--no-…` twin the help leaves out, texts of epilogs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from app.errors import UsageError
from app.wiring import resolve


class PanelCommand(TyperCommand):
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


def paragraphs(text: str) -> str:
    """The text with each paragraph on one line: the terminal breaks it, as wide as it is. Indented ones stay so."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        indent = paragraph[: len(paragraph) - len(paragraph.lstrip())]
        found.append(indent + " ".join(paragraph.split()))
    return "\n\n".join(found)


def missing_command(context: typer.Context) -> UsageError:
    """What to raise where a group of commands is called without one of them."""
    commands = getattr(context.command, "commands", {})
    return UsageError(f"missing command: want one of {', '.join(commands)}; see {context.command_path} --help")


def devtool(reference: str) -> Callable[..., Any]:
    """A function of `app.devtools`, which a container image does not have. Raises UsageError there."""
    try:
        found: Callable[..., Any] = resolve(reference)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("app.devtools"):
            raise
        raise UsageError("the container image has no development tools: use a clone or the wheel") from error
    return found


def switches_of(command: Any, words: Sequence[str]) -> list[str]:
    """The switches of the command that the words name: they take no value, and have a twin that begins with `no-`."""
    for word in words:
        command = command if word.startswith("-") else getattr(command, "commands", {}).get(word, command)
    return [name.lstrip("-") for param in command.params if param.secondary_opts for name in param.opts]
