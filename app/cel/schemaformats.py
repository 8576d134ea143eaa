"""Names of JSON types, string formats and regular expressions, as Go's libraries understand them. Pure."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
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
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


def type_name(value: Any) -> str:
    """The OpenAPI name of a JSON value's type; "null" for None."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


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


def is_format(value: str, name: str) -> bool:
    """Whether the string has the format; formats that the API server does not check hold for any string."""
    check = _FORMATS.get(name.replace("-", ""))
    if check is None:
        return True
    try:
        return bool(check(value))
    except (ValueError, binascii.Error):
        return False


def _is_date_time(value: str) -> bool:
    return bool(_DATE_TIME.fullmatch(value)) and bool(datetime.fromisoformat(value[:19].upper()))


_FORMATS: dict[str, Callable[[str], object]] = {
    "datetime": _is_date_time,
    "date": lambda value: len(value) == 10 and bool(date.fromisoformat(value)),
    "ipv4": lambda value: ipaddress.IPv4Address(value) is not None,
    "ipv6": lambda value: ipaddress.IPv6Address(value) is not None,
    "cidr": lambda value: "/" in value and ipaddress.ip_interface(value) is not None,
    "uuid": _UUID.fullmatch,
    "email": _EMAIL.fullmatch,
    "byte": lambda value: base64.b64decode(value, validate=True) is not None,
}
