"""Texts from outside in messages, cut and quoted, and times as the API writes them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

SHOWN = 80
"""Characters of a value that a message quotes."""
MESSAGE = 1024
"""Characters of a whole message: of an Event, a condition, an audit annotation."""


def cut(text: str, limit: int = SHOWN) -> str:
    """At most `limit` characters; a text that is cut ends with "…"."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quoted(text: str, limit: int = SHOWN) -> str:
    """The text in quotes, cut, with everything unprintable escaped."""
    return repr(cut(text, limit))


def one_line(text: str, limit: int) -> str:
    return cut(" ".join(text.split()), limit)


_WANTS = {"tuple_type": "want a list", "model_type": "want a mapping"}


def wanted(item: ErrorDetails) -> str:
    """What one error of pydantic says of a value, in our words: "want …", or the text of our own validator."""
    if item["type"] == "value_error":
        return item["msg"].removeprefix("Value error, ")
    said = _WANTS.get(item["type"]) or item["msg"].partition(", unable to")[0]
    return said.replace("Input should be", "want", 1)


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
