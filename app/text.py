"""Texts from outside in messages, cut and quoted, and times as the API writes them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

SHOWN = 80
"""Characters of a value that a message quotes."""
MESSAGE = 1024
"""Characters of a whole message: of an Event, a condition, an audit annotation."""
_CONTEXT = re.compile(r" ssl:(?:<[^>]*>|\w+)")
"""How aiohttp says by which TLS context it tried to connect."""


def cut(text: str, limit: int = SHOWN) -> str:
    """At most `limit` characters; a text that is cut ends with "…"."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quoted(text: str, limit: int = SHOWN) -> str:
    """The text in quotes, cut, with everything unprintable escaped."""
    return repr(cut(text, limit))


def one_line(text: str, limit: int) -> str:
    return cut(" ".join(text.split()), limit)


def fault(error: BaseException) -> str:
    """Why a request had no answer, in words; without the objects of Python that libraries print."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return _CONTEXT.sub("", str(error)) or type(error).__name__


def utc_now() -> datetime:
    """The present time, in UTC."""
    return datetime.now(UTC)


def stamp(moment: datetime | None = None) -> str:
    """A UTC time in RFC 3339 with whole seconds; the present one if none is given."""
    return f"{moment or utc_now():%Y-%m-%dT%H:%M:%SZ}"


def moment(text: object) -> datetime | None:
    """The time that a timestamp of the API says, None where it says none."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
