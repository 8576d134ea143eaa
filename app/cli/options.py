"""What commands have alike: applications and groups, also lazy ones; lines in styles; examples below the help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import typer
import typer.main

from app.cli.plain_help import PlainCommand, PlainGroup
from app.errors import UsageError
from app.wiring import resolve

Loaders = Mapping[str, tuple[str, Callable[[], typer.Typer]]]
"""By name: the summary, and what makes the command, or the group of commands."""


class LazyGroup(PlainGroup):
    """Commands that are imported when they are used: their list needs no more than their summaries.

    They are those of `loaders`, which a subclass has, in their order.
    """

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
        return PlainCommand(name=cmd_name, help=self.loaders[cmd_name][0])

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


class App(typer.Typer):
    """An application whose commands have plain help."""

    def command(self, name: str | None = None, *, cls: Any = PlainCommand, **settings: Any) -> Callable[..., Any]:
        """As Typer's."""
        return super().command(name, cls=cls, **settings)


def group(name: str, text: str, *, epilog: str) -> typer.Typer:
    """A group of commands; without one of them it shows its help."""
    app = App(name=name, cls=PlainGroup, help=text, epilog=epilog, add_completion=False)
    app.callback(invoke_without_command=True)(show_help)
    return app


def alone() -> typer.Typer:
    """An application of one command."""
    return App(add_completion=False)


def show_help(context: typer.Context) -> None:
    """What a group of commands does without one of them, as kubectl and helm do."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def show(lines: Iterable[tuple[str, str]], *, aside: bool = False) -> None:
    """Print texts in their styles, aside on standard error. Rich leaves colors out where there is no terminal."""
    from rich.console import Console  # noqa: PLC0415  `berth health` needs none of it
    from rich.text import Text  # noqa: PLC0415

    console = Console(stderr=aside, highlight=False, soft_wrap=True)
    for text, style in lines:
        console.print(Text(text, style))


def epilog(*examples: str, text: str = "") -> str:
    """What is below the help: examples, and paragraphs on one line each, which the terminal breaks."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return "\n\n".join(("Examples:", *(f"  {example}" for example in examples), *filter(None, paragraphs)))


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
