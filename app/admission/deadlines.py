"""Deadlines for very many short tasks: one timer for all of them instead of one each.

`asyncio.timeout` arms and disarms a timer for every review, which costs as much as decoding one. Here a review
costs a dictionary entry; a sweep every `RESOLUTION` seconds, for as long as anything is in flight, cancels what is
overdue. A deadline is therefore late by up to `RESOLUTION`, never early.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

RESOLUTION = 0.05
"""Seconds between sweeps."""


class Deadlines:
    """The deadlines of one event loop; `limit(seconds)` is a block that raises TimeoutError when it takes longer."""

    __slots__ = ("due", "timer")

    def __init__(self) -> None:
        self.due: dict[Limit, float] = {}
        self.timer: asyncio.TimerHandle | None = None

    def limit(self, seconds: float) -> Limit:
        """A block for the current task, to be entered at once."""
        return Limit(self, seconds)

    def sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for limit in [limit for limit, due in self.due.items() if due <= now]:
            del self.due[limit]
            limit.expire()
        self.timer = loop.call_later(RESOLUTION, self.sweep, loop) if self.due else None


class Limit:
    """One block under a deadline. Cancellation from elsewhere passes through as what it is."""

    __slots__ = ("_deadlines", "_expired", "_seconds", "_task")

    def __init__(self, deadlines: Deadlines, seconds: float) -> None:
        self._deadlines, self._seconds = deadlines, seconds
        self._expired = False
        self._task: asyncio.Task[object] | None = None

    def expire(self) -> None:
        if self._task is not None:
            self._expired = True
            self._task.cancel()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        deadlines, loop = self._deadlines, asyncio.get_running_loop()
        deadlines.due[self] = loop.time() + self._seconds
        if deadlines.timer is None:
            deadlines.timer = loop.call_later(RESOLUTION, deadlines.sweep, loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._deadlines.due.pop(self, None)
        # Take back this deadline's own cancellation. A count above 0 is another caller's, and stays a cancellation.
        if self._expired and self._task and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise TimeoutError from error
