"""Reduces an exception group to one error."""

from __future__ import annotations

from app.errors import BerthError


def first_of(group: BaseExceptionGroup[BerthError]) -> BerthError:
    """The first error of the group, at any depth: the message shows one cause."""
    cause = group.exceptions[0]
    return first_of(cause) if isinstance(cause, BaseExceptionGroup) else cause
