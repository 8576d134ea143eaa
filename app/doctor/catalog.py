"""What the doctor can find: the codes with their texts, and how these are filled. Pure.

The core has its codes in `findings.toml` beside this module, a wing in the one of its folder.

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
from pathlib import Path
from string import Formatter
from typing import Any

from app.errors import UsageError
from app.registry import WINGS
from app.text import closest, cut, printable, several

PAGE = "docs/troubleshooting.md"
_FILE, _CORE, _OF_ALL = "findings.toml", "doctor", "00"
"""Where findings are; the folder that has those of the core, with the digits of codes that any check may use."""
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


def read_findings(folder: str) -> dict[str, Any]:
    """What `findings.toml` of a folder of `app` has: `checks` by the first digits of codes, and texts by code."""
    path = resources.files(f"app.{folder}") / _FILE
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"checks": {}}


def joined(files: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, str], dict[str, Declared]]:
    """The checks by the first two digits of their codes, and all findings in the order of codes; `files` are by folder.

    Raises ValueError for digits that two folders have, and for a code whose digits its folder does not have.
    """
    checks: dict[str, str] = {}
    findings: dict[str, Declared] = {}
    folder_of = {_OF_ALL: _CORE}
    for folder, content in files.items():
        for digits, check in content["checks"].items():
            if (other := folder_of.setdefault(digits, folder)) != folder or digits == _OF_ALL:
                raise ValueError(f"{_FILE} of {folder}: codes with {digits} are those of {other}: want other digits")
            checks[digits] = check
        for code, texts in content.items():
            if code == "checks":
                continue
            if folder_of.get(code[5:7]) != folder:
                choices = ", ".join(content["checks"]) or "none, for it has no checks"
                raise ValueError(f"{_FILE} of {folder}: {code} is not of a check there: want digits of {choices}")
            findings[code] = Declared(**texts)
    return dict(sorted(checks.items())), dict(sorted(findings.items()))


CHECK_NUMBERS, FINDINGS = joined({folder: read_findings(folder) for folder in (_CORE, *(wing.name for wing in WINGS))})
"""The checks by the first two digits of their codes; 00 is of all checks. The findings by code."""


def section_of(code: str) -> str:
    """The section about a code, as a link from the project's directory."""
    return f"{PAGE}#{code.lower()}"


def section_text(code: str) -> str:
    """The section about a code, as Markdown: out of the clone, or out of the package. Raises UsageError for no code."""
    if code not in FINDINGS:
        near = closest(code.upper(), FINDINGS)
        raise UsageError(f"--explain: there is no code {code!r}{f'; did you mean {near}?' if near else ''}")
    page = Path(__file__).parents[2] / PAGE
    text = page.read_text(encoding="utf-8") if page.is_file() else _packaged_page()
    _, _, section = text.partition(f"\n### {code}\n")
    return f"{code}: {section.partition(chr(10) + '##')[0].strip()}"


def _packaged_page() -> str:
    return resources.files("app.doctor").joinpath(Path(PAGE).name).read_text(encoding="utf-8")


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
