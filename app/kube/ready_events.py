"""Events when the condition Ready of one of Berth's own kinds starts or ceases to report a problem."""

from __future__ import annotations

from app.kube.conditions import condition
from app.kube.events import EventRecorder, Regarding
from app.wire import JSON

_KNOWN_LIMIT = 4096
_WELL = "nothing is wrong any more"
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
