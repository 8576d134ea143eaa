"""Names of JSON types and string formats, as Go's libraries understand them. Pure."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

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
