"""Conditions as Kubernetes keeps them: `lastTransitionTime` moves where `status` changes, and only there.

Every timer of the controller is measured from one of these times.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from app.kube.conditions import condition
from app.text import moment, stamp
from app.wire import JSON

Truth = Literal["True", "False", "Unknown"]


def set_condition(
    owner: JSON, kind: str, truth: Truth, reason: str, message: str = "", *, now: datetime, generation: int = 0
) -> None:
    """Put a condition into the `conditions` of a status, in place. `generation` 0 leaves observedGeneration out."""
    before = condition(owner, kind)
    flipped = before.get("status") != truth
    after: JSON = {
        "type": kind,
        "status": truth,
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp(now) if flipped else before["lastTransitionTime"],
    }
    if generation:
        after["observedGeneration"] = generation
    others = [one for one in owner.get("conditions") or () if one is not before]
    position = next((i for i, one in enumerate(owner.get("conditions") or ()) if one is before), len(others))
    owner["conditions"] = [*others[:position], after, *others[position:]]


def is_true(owner: JSON, kind: str) -> bool:
    return bool(condition(owner, kind).get("status") == "True")


def since(owner: JSON, kind: str, *, now: datetime) -> datetime:
    """When the status of the condition changed last; `now` where there is none."""
    return moment(condition(owner, kind).get("lastTransitionTime")) or now
