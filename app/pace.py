"""Work that is cut into slices, so that an event loop serves others between two of them.

Loops over what a user may make long call `step`. In ordinary work that does nothing. In work that runs `in_slices` the
steps are counted; after `STEPS` of them the work stops where it is, until it is its turn again. Such work has a thread
for its stack, and only one of the two runs at a time, the work or the event loop: nothing changes under either, as with
`await` (docs/adr/0017-big-reviews-in-slices.md).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
STEPS = 2048
"""Of one slice: some milliseconds. A step is the turn of a loop with what it calls, a few microseconds."""


class Ended(BaseException):
    """Raised by `step` in work that is not waited for any more. Not an Exception: no wall may take it for a fault."""


class _Running(threading.local):
    """The work that this thread is for."""

    work: _Work[Any] | None = None


_running = _Running()


def step(count: int = 1) -> None:
    """Count `count` turns of a loop. In work that is not waited for any more, raises Ended."""
    work = _running.work
    if work is not None:
        work.left -= count
        if work.left <= 0:
            work.pause()


class Pace:
    """Gives slices to the works of one event loop: one slice in each of its iterations, to one work after the other."""

    def __init__(self) -> None:
        self.slices = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._scheduled = False

    async def in_slices(self, call: Callable[[], T]) -> T:
        """What the call returns or raises. It may not use the event loop.

        Where this is canceled, as by a deadline, the call ends at its next step.
        """
        work = _Work(call)
        try:
            while not work.finished:
                await self._turn()
                self.slices += 1
                work.go_on()
        finally:
            work.end()
        return work.outcome()

    async def _turn(self) -> None:
        """Wait for the next iteration in which no other work has its slice."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._next, loop)
        await turn

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        self._scheduled = bool(self._waiting)
        if self._scheduled:
            loop.call_soon(self._next, loop)


_pace: contextvars.ContextVar[Pace | None] = contextvars.ContextVar("pace", default=None)


@contextmanager
def pacing(pace: Pace | None) -> Iterator[None]:
    """Have `at_pace` give its works their slices by this pace; without one they run at once."""
    token = _pace.set(pace)
    try:
        yield
    finally:
        _pace.reset(token)


async def at_pace(call: Callable[[], T]) -> T:
    """What the call returns or raises: in slices where a big review waits for it.

    For work over what a user may make long that comes after something was waited for. It may not use the event loop.
    """
    pace = _pace.get()
    return call() if pace is None else await pace.in_slices(call)


class _Work(Generic[T]):
    """A call and its thread, which runs only while `go_on` waits for it."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.left = STEPS
        self.finished = False
        self._call = call
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._ended = False
        self._runs, self._rests = threading.Lock(), threading.Lock()
        self._runs.acquire()
        self._rests.acquire()
        self._context = contextvars.copy_context()
        self._thread: threading.Thread | None = None

    def go_on(self) -> None:
        """Run to the end of a slice, or of the call."""
        self.left = STEPS
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="slices", daemon=True)
            thread.start()  # raises where the system has no thread left: then there is nothing for `end` to wait for
            self._thread = thread
        else:
            self._runs.release()
        self._rests.acquire()

    def pause(self) -> None:
        """Called in the thread of the work: wait for the next slice."""
        if not self._ended:
            self._rests.release()
            self._runs.acquire()
        if self._ended:
            raise Ended

    def end(self) -> None:
        """Have a call that is not finished raise Ended."""
        self._ended = True
        if self._thread is not None and not self.finished:
            self.go_on()

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _run(self) -> None:
        _running.work = self
        try:
            self._result.append(self._context.run(self._call))
        except BaseException as error:  # noqa: BLE001  it is raised where the call is waited for
            self._error = error
        self.finished = True
        self._rests.release()
