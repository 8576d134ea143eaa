"""Reads the conditions of a status."""

from __future__ import annotations

from app.wire import JSON


def condition(status: JSON, kind: str) -> JSON:
    """The condition of this type, empty where there is none."""
    conditions = status.get("conditions")
    found = (one for one in conditions or () if isinstance(one, dict) and one.get("type") == kind)
    return next(found, {})


def since(before: JSON, kind: str, value: str, *, now: str) -> str:
    """The `lastTransitionTime` of a condition that has this status now, where the object said `before`."""
    known = condition(before, kind)
    return str(known.get("lastTransitionTime") or now) if known.get("status") == value else now
