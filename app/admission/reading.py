"""Refuses objects that have other shapes than their kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from app.errors import Denied

T = TypeVar("T")


def readable(read: Callable[[], T], *, reason: str) -> T:
    """What `read` returns. Raises Denied (code 400) where the object has values of other types than its kind has.

    An API server checks the types before it asks. A review that is written by hand can have any.
    """
    try:
        return read()
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
        fault = f"the object cannot be read: want the fields and types of its kind: {type(error).__name__}: {error}"
        raise Denied(fault, reason=reason, code=400) from error
