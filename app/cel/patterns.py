"""Regular expressions and durations as Go's libraries understand them. Pure."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

import re2

from app.errors import BerthError

_RE2 = re2.Options()
_RE2.log_errors = False
_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""What Go's library calls the faults that RE2 finds; the others have the same name."""


class BadPattern(BerthError):
    """The pattern is not a regular expression of Go; the message is Go's."""


@lru_cache(maxsize=1024)
def compiled_pattern(pattern: str) -> Any:
    """The RE2 expression, as the API server reads it; raises `BadPattern`."""
    try:
        return re2.compile(pattern, _RE2)
    except re2.error as error:
        fault, _, part = error.args[0].decode(errors="replace").partition(": ")
        text = _GO_WORDS.get(fault, fault)
        if part in ("(?<!", "(?<="):  # Go reads a named group up to ">"
            text, rest = "invalid named capture", pattern[pattern.index(part) :]
            part = rest[: rest.find(">") + 1] or rest
        raise BadPattern(f"error parsing regexp: {text}: `{part}`") from None


_DURATION = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|[-+]?0")
_PART = re.compile(r"(\d*\.?\d*)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def parse_duration(text: str) -> int:
    """The nanoseconds of a duration of Go (`1h30m`); raises `ValueError`."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f'invalid duration "{text}"')
    total = sum(int(Decimal(number) * _UNITS[unit]) for number, unit in _PART.findall(text))
    return -total if text.startswith("-") else total
