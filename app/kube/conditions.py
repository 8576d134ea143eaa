"""Conditions of a status as Kubernetes keeps them; Events when one starts or ceases to report a problem.

`lastTransitionTime` moves where `status` changes, and only there: timers are measured from these times.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from app.kube.events import EventRecorder, Regarding
from app.text import moment, stamp
from app.wire import JSON

Truth = Literal["True", "False", "Unknown"]
_KNOWN_LIMIT = 4096
_WELL = "nothing is wrong any more"


def condition(status: JSON, kind: str) -> JSON:
    """The condition of this type, empty where there is none."""
    conditions = status.get("conditions")
    found = (one for one in conditions or () if isinstance(one, dict) and one.get("type") == kind)
    return next(found, {})


def since(before: JSON, kind: str, value: str, *, now: str) -> str:
    """The `lastTransitionTime` of a condition that has this status now, where the object said `before`."""
    known = condition(before, kind)
    return str(known.get("lastTransitionTime") or now) if known.get("status") == value else now


def set_condition(
    owner: JSON, kind: str, truth: Truth, reason: str, message: str = "", *, now: datetime, generation: int = 0
) -> None:
    """Put a condition into the `conditions` of a status, in place. `generation` 0 leaves observedGeneration out."""
    after: JSON = {
        "type": kind,
        "status": truth,
        "reason": reason,
        "message": message,
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


_Problem = tuple[str, int]
"""Reason and generation: the same problem of the same spec gives one Event, also where its message changes."""


class ReadyEvents:
    """Call `changed` for each status that was written. Without `events` it does nothing.

    Reads `result` ("error" where a user has to act) and the condition Ready, as Berth's own kinds have them. A state
    that is not known yet gives no Event.
    """

    def __init__(self, events: EventRecorder | None) -> None:
        self._events = events
        self._problems: dict[Regarding, _Problem] = {}

    def changed(self, regarding: Regarding, *, before: JSON, after: JSON) -> None:
        """The status was `before` and is `after` now; a view of `before` that lags causes no second Event."""
        if self._events is None:
            return
        known = self._problems.pop(regarding, None) or _problem(before)
        problem, ready = _problem(after), condition(after, "Ready")
        message = str(ready.get("message") or "")
        if problem is None and ready.get("status") != "True":
            problem = known  # it is not known yet whether the problem is over
        elif problem is None and known is not None:
            reason = str(ready.get("reason") or "Ready")
            self._events.record(regarding, "Normal", reason=reason, message=message or _WELL)
        elif problem is not None and problem != known:
            message = message or str(after.get("message") or "")
            self._events.record(regarding, "Warning", reason=problem[0], message=message)
        if problem is not None:
            self._problems[regarding] = problem
            if len(self._problems) > _KNOWN_LIMIT:
                del self._problems[next(iter(self._problems))]


def _problem(status: JSON) -> _Problem | None:
    if status.get("result") != "error":
        return None
    generation, reason = status.get("observedGeneration"), condition(status, "Ready").get("reason")
    return str(reason or "Error"), generation if isinstance(generation, int) else 0
