"""Help without tables: every flag is whole at any width, and a long example ends its lines with backslashes."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand, TyperGroup

HELP_NAMES = ("-h", "--help")
_COLUMN = 26
_COMMANDS = ("berth ", "kubectl ")
_REMARK = "   # "
_LIST = re.compile(r"list\[(\w+)\]|(\w+) range")


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
