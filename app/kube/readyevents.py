"""Records Events on an object when its status starts to report a problem, and when the problem is over.

Reads `result` ("error" where a user has to act) and the condition Ready, as Berth's own kinds have them. A state that
is not known yet gives no Event.
"""

from __future__ import annotations

from typing import NamedTuple

from app.kube.conditions import condition
from app.kube.events import Events, Regarding
from app.wire import JSON

_KNOWN_LIMIT = 4096
_WELL = "nothing is wrong any more"


class _Trouble(NamedTuple):
    """The same trouble of the same spec is told once, however its message counts what it concerns."""

    reason: str
    generation: int


class ReadyEvents:
    """`changed` is told of each status that was written. Without `events` it does nothing."""

    def __init__(self, events: Events | None) -> None:
        self._events = events
        self._troubles: dict[Regarding, _Trouble] = {}

    def changed(self, regarding: Regarding, *, before: JSON, after: JSON) -> None:
        """The object said `before` and says `after` now; a view of `before` that lags tells nothing twice."""
        if self._events is None:
            return
        known = self._troubles.pop(regarding, None) or _trouble(before)
        trouble, ready = _trouble(after), condition(after, "Ready")
        message = str(ready.get("message") or "")
        if trouble is None and ready.get("status") != "True":
            trouble = known  # it is not known yet whether the problem is over
        elif trouble is None and known is not None:
            reason = str(ready.get("reason") or "Ready")
            self._events.record(regarding, "Normal", reason=reason, message=message or _WELL)
        elif trouble is not None and trouble != known:
            message = message or str(after.get("message") or "")
            self._events.record(regarding, "Warning", reason=trouble.reason, message=message)
        if trouble is not None:
            self._troubles[regarding] = trouble
            if len(self._troubles) > _KNOWN_LIMIT:
                del self._troubles[next(iter(self._troubles))]


def _trouble(status: JSON) -> _Trouble | None:
    if status.get("result") != "error":
        return None
    generation = status.get("observedGeneration")
    return _Trouble(
        str(condition(status, "Ready").get("reason") or "Error"), int(generation) if isinstance(generation, int) else 0
    )
