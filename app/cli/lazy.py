"""A group of commands that are imported when they are used: their list needs no more than their summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

Loaders = Mapping[str, tuple[str, Callable[[], typer.Typer]]]
"""By name: the summary, and what makes the command, or the group of commands."""


class LazyGroup(TyperGroup):
    """The commands of `loaders`, in their order; a subclass has them."""

    loaders: Loaders

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands(self.loaders)  # type: ignore[assignment]  # nothing is added later

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  as Typer calls it
        """Their names."""
        return list(self.loaders)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """What a list shows of a command; None where there is none."""
        if cmd_name not in self.loaders:
            return None
        return TyperCommand(name=cmd_name, help=self.loaders[cmd_name][0])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is typed. Raises UsageError of Typer for one that does not exist."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, self.commands[name] if name and listed else None, rest


class _Commands(Mapping[str, Any]):
    """Commands by name, each made when it is first looked up."""

    def __init__(self, loaders: Loaders) -> None:
        self._loaders = loaders
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = typer.main.get_command(self._loaders[name][1]())
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)
