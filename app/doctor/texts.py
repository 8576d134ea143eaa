"""Fills the texts of findings with what was found, and makes foreign text fit for a message. Pure.

A text is a template of `str.format` with more forms: `{x!p}` is foreign text, `{count:Pod}` a number with its noun,
`{names}` the first three of a list, `{names:6}` the first six, `{age:min}` whole minutes of seconds.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from app.text import cut, printable, several

_SHOWN = 400
_WITH_FIELD = re.compile(r"\S*\{\S*( ?)")


def plain(text: object, limit: int = _SHOWN) -> str:
    """Foreign text for a message: one line, what cannot be printed escaped, cut to `limit` characters."""
    return cut(printable(" ".join(str(text).split())[: limit + 1]), limit)


def listed(items: Sequence[str], most: int = 3) -> str:
    """The first of them, and how many more there are."""
    shown = ", ".join(items[:most])
    return f"{shown} and {len(items) - most} more" if len(items) > most else shown


class _Texts(Formatter):
    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return plain(value) if conversion == "p" else super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, list | tuple):
            return listed([str(one) for one in value], int(format_spec or 3))
        if format_spec == "min":
            return f"{value / 60:.0f}"
        if isinstance(value, int) and format_spec:
            return several(value, format_spec)
        return str(super().format_field(value, format_spec))


def filled(template: str, values: Mapping[str, object]) -> str:
    return _Texts().vformat(template, (), values)


def command_line(template: str, values: Mapping[str, object]) -> str:
    """The command, each word with a field quoted where a shell wants it.

    A field with `!s` is part of a command line already: it is not quoted, and is left out where it is empty.
    """

    def word(found: re.Match[str]) -> str:
        text = filled(found[0].rstrip(" "), values)
        text = text if "!s}" in found[0] else shlex.quote(text)
        return f"{text}{found[1]}" if text else ""

    return _WITH_FIELD.sub(word, template).strip()
