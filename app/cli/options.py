"""What commands have alike: applications and groups, also lazy ones; lines in styles; help and the examples below it.

Help has no tables: every flag is whole at any width, and a long example ends its lines with backslashes.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from app.errors import UsageError
from app.wiring import resolve

HELP_NAMES = ("-h", "--help")
_COLUMN = 26
_COMMANDS = ("berth ", "kubectl ")
_REMARK = "   # "
_LIST = re.compile(r"list\[(\w+)\]|(\w+) range")
Loaders = Mapping[str, tuple[str, Callable[[], typer.Typer]]]
"""By name: the summary, and what makes the command, or the group of commands."""


def files_option(text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option("-f", "--filename", metavar="FILE", help=text)
    return option


Manifests = Annotated[
    list[str] | None, files_option("File or directory of YAML or JSON manifests, - for standard input; repeatable")
]
Recursive = Annotated[
    bool, typer.Option("-R", "--recursive", help="Read the directories below those of -f too", show_default=False)
]


class PlainHelp:
    """What a command and a group of commands have alike. Flags are in their panels, without the `--no-…` twins."""

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        formatter.write("".join(f"{line}\n" for line in _text(inspect.cleandoc(self.help or ""), formatter.width)))
        panels = _panels(self.get_params(ctx), ctx)
        if isinstance(self, TyperGroup):
            listed = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
            panels["Commands"] = [(name, command.help or "") for name, command in listed if command]
        for title, rows in panels.items():
            formatter.write("\n".join(("", f"{title}:", *_listed(rows, formatter.width), "")))
        formatter.write("".join(f"{line}\n" for line in _text(self.epilog or "", formatter.width)))


class PlainCommand(PlainHelp, TyperCommand):
    """A command."""


class PlainGroup(PlainHelp, TyperGroup):
    """A group of commands."""


def _panels(params: list[Any], ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """The rows of the help by the titles of their panels: arguments, flags of no panel, the others."""
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for param in params:
        row = _row(param, ctx)
        if row is not None:
            argument = param.param_type_name == "argument"
            title = "Arguments" if argument else getattr(param, "rich_help_panel", None) or "Options"
            panels.setdefault(title, []).append(row)
    if len(panels.get("Options", ())) == 1:
        panels["Options"] = panels.pop("Options")
    return {title: rows for title, rows in panels.items() if rows}


def _row(param: Any, ctx: Any) -> tuple[str, str] | None:
    """Names with the kind of value, and the text; None for what is hidden."""
    twins, param.secondary_opts = param.secondary_opts, []
    try:
        record = param.get_help_record(ctx)
    finally:
        param.secondary_opts = twins
    return record and (_LIST.sub(lambda match: match[1] or match[2], record[0]), record[1])


def _listed(rows: list[tuple[str, str]], width: int) -> Iterator[str]:
    """Names and texts in two columns; a name that is wider than the first has a line of its own."""
    column = min(max(len(name) for name, _ in rows), _COLUMN) + 2
    for name, text in rows:
        first, *rest = _wrapped(text, width - column - 2) or [""]
        if len(name) + 2 > column:
            yield f"  {name}"
            rest = [first, *rest]
        else:
            yield f"  {name:{column}}{first}".rstrip()
        yield from (f"  {'':{column}}{line}" for line in rest)


def _text(text: str, width: int) -> Iterator[str]:
    """Paragraphs, broken to the width. Indented lines stay lines of their own: commands, and lists."""
    for paragraph in filter(None, text.split("\n\n")):
        if not paragraph.startswith(" "):
            yield from ("", *_wrapped(paragraph, width))
            continue
        for line in map(str.strip, paragraph.splitlines()):
            if line.startswith(_COMMANDS):
                yield from _command(line, width)
            else:
                yield "  " + "\n      ".join(_wrapped(line, width - 8))


def _command(line: str, width: int) -> Iterator[str]:
    """What can be copied; a comment that does not fit stands above, as a backslash at its end continues nothing."""
    command, _, remark = line.partition(_REMARK)
    if len(line) <= width - 2:
        yield f"  {line}"
        return
    yield from (f"  # {part}" for part in _wrapped(remark, width - 4))
    yield "  " + " \\\n      ".join(_wrapped(command, width - 8))


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


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


def one_of(choices: Iterable[str]) -> str:
    """What the help calls the value of a flag that is one of these words; "" where there are none."""
    words = "|".join(choices)
    return words and f"<{words}>"


def output_option() -> Any:
    """The flag for the form of an answer; its values are those of a Literal."""
    return typer.Option("-o", "--output", help="Form of the answer")


def devtool(reference: str) -> Callable[..., Any]:
    """A function of `app.devtools`, which a container image does not have. Raises UsageError there."""
    try:
        function: Callable[..., Any] = resolve(reference)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("app.devtools"):
            raise
        raise UsageError("the container image has no development tools: use a clone or the wheel") from error
    return function


def switches_of(command: Any, words: Sequence[str]) -> list[str]:
    """The switches of the command that the words name: they take no value, and have a twin that begins with `no-`."""
    for word in words:
        command = command if word.startswith("-") else getattr(command, "commands", {}).get(word, command)
    return [name.lstrip("-") for param in command.params if param.secondary_opts for name in param.opts]
