"""What the doctor can find: the codes with their texts, as `findings.toml` has them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

PAGE = "docs/troubleshooting.md"
_TEXTS = ("message", "consequence", "command")


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
