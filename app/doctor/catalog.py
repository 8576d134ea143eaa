"""What the doctor can find: the codes with their texts, as `findings.toml` has them, and how these are filled. Pure.

A text is a template of `str.format` with more forms: `{x!p}` is foreign text, `{count:Pod}` a number with its noun,
`{names}` the first three of a list, `{names:6}` the first six, `{age:min}` whole minutes of seconds.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from string import Formatter
from typing import Any

from app.text import cut, printable, several

PAGE = "docs/troubleshooting.md"
_TEXTS = ("message", "consequence", "command")
_SHOWN = 400
_WITH_FIELD = re.compile(r"\S*\{\S*( ?)")


@dataclass(frozen=True, slots=True)
class Declared:
    """A finding: words of `Severity`, its title, and templates of its texts, with those that differ in some cases."""

    severities: str
    title: str
    message: str = ""
    consequence: str = ""
    command: str = ""
    when: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def texts(self, case: str = "") -> dict[str, str]:
        """The templates of message, consequence and command. Of the words of a case, the last that has one counts."""
        texts = {name: getattr(self, name) for name in _TEXTS}
        for word in case.split():
            texts |= self.when.get(word, {})
        return texts


_READ = tomllib.loads((resources.files(__package__) / "findings.toml").read_text(encoding="utf-8"))
CHECK_NUMBERS: dict[str, str] = _READ.pop("checks")
"""The checks by the first two digits of their codes; 00 is of all checks."""
FINDINGS = {code: Declared(**texts) for code, texts in _READ.items()}


def section_of(code: str) -> str:
    """The section about a code, as a link from the project's directory."""
    return f"{PAGE}#{code.lower()}"


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
            return listed([str(item) for item in value], int(format_spec or 3))
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

    def word(match: re.Match[str]) -> str:
        text = filled(match[0].rstrip(" "), values)
        text = text if "!s}" in match[0] else shlex.quote(text)
        return f"{text}{match[1]}" if text else ""

    return _WITH_FIELD.sub(word, template).strip()
