"""Conditions of a status as Kubernetes keeps them. Pure.

`lastTransitionTime` moves where `status` changes, and only there: timers are measured from these times.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime
from typing import Any, Literal

from app.text import abridged, moment, stamp
from app.wire import JSON, encode_json, size_as_go

Truth = Literal["True", "False", "Unknown"]
_WIDEST = 6
"""Bytes of one character in the JSON that an API server stores."""
_TEXTS = ("type", "status", "reason", "message", "lastTransitionTime")


def status_of(obj: JSON) -> JSON:
    """The status of a stored object as it can be read: a map, whose `conditions` are a list of maps with texts.

    What has another shape is left out, as if it had not been written, and so is null: API servers write it for times of
    Pods and nodes that are not set.
    """
    status = obj.get("status")
    if not isinstance(status, dict):
        return {}
    conditions = status.get("conditions")
    if conditions is None or _are_conditions(conditions):
        return status
    listed = [_without_null(entry) for entry in conditions] if isinstance(conditions, list) else []
    return {**status, "conditions": [entry for entry in listed if _are_conditions([entry])]}


def _without_null(value: Any) -> Any:
    return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value


def _are_conditions(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, dict) and all(isinstance(entry.get(field, ""), str) for field in _TEXTS) for entry in value
    )


def condition(status: JSON, kind: str) -> JSON:
    """The condition of this type, empty where there is none."""
    conditions = status.get("conditions")
    listed = conditions if isinstance(conditions, list | tuple) else ()
    return next((entry for entry in listed if isinstance(entry, dict) and entry.get("type") == kind), {})


def since(before: JSON, kind: str, value: str, *, now: str) -> str:
    """The `lastTransitionTime` of a condition that has this status now, where the object said `before`."""
    known = condition(before, kind)
    return str(known.get("lastTransitionTime") or now) if known.get("status") == value else now


def set_condition(
    owner: JSON, kind: str, truth: Truth, reason: str, message: str = "", *, now: datetime, generation: int = 0
) -> None:
    """Put a condition into the `conditions` of a status, in place. `generation` 0 leaves observedGeneration out.

    A message longer than `text.MESSAGE` is cut in its middle: the parts of others in it have no bound, and an API
    server takes 32 KiB.
    """
    after: JSON = {
        "type": kind,
        "status": truth,
        "reason": reason,
        "message": abridged(message),
        "lastTransitionTime": since(owner, kind, truth, now=stamp(now)),
    }
    if generation:
        after["observedGeneration"] = generation
    before, others = condition(owner, kind), list(owner.get("conditions") or ())
    position = next((i for i, one in enumerate(others) if one is before), len(others))
    owner["conditions"] = [*others[:position], after, *others[position + 1 :]]


def is_true(owner: JSON, kind: str) -> bool:
    return bool(condition(owner, kind).get("status") == "True")


def changed_at(owner: JSON, kind: str, *, now: datetime) -> datetime:
    """When the status of the condition changed last; `now` where there is none."""
    return moment(condition(owner, kind).get("lastTransitionTime")) or now


def cut_as_stored(message: str, limit: int) -> str:
    """As much of the message as an API server stores in `limit` bytes, without the quotes."""
    if _stored_bytes(message) <= limit:
        return message
    lengths = range(limit // _WIDEST, limit + 1)
    first = bisect_left(lengths, True, key=lambda length: _stored_bytes(abridged(message, length)) > limit)
    return abridged(message, lengths[max(0, first - 1)])


def _stored_bytes(text: str) -> int:
    return size_as_go(encode_json(text)) - 2
