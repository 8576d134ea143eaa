"""One cause out of several parts that failed together."""

from __future__ import annotations

from app.errors import BerthError


def first_of(group: BaseExceptionGroup[BerthError]) -> BerthError:
    """One cause is enough for whoever reads the message."""
    cause = group.exceptions[0]
    return first_of(cause) if isinstance(cause, BaseExceptionGroup) else cause
