"""The body of one request while it comes in, what it holds of the budget of its port, and the deadline of its answer.

There is one timer for all of very many short tasks. `asyncio.timeout` arms and disarms a timer for every review,
which costs as much as decoding one. Here a review costs a dictionary entry; a sweep every `RESOLUTION` seconds, for
as long as anything is in flight, cancels what is overdue. A deadline is therefore late by up to `RESOLUTION`, never
early.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.types import Receive

from app.errors import BadReview, Overloaded
from app.serving.memory import Holding

GONE = "the client closed the connection before the body was complete"
_DISCARD = 4
_BEGINNING = 1024
"""Bytes that are kept of a body that is not: the uid of the review is in them."""
RESOLUTION = 0.05
"""Seconds between sweeps."""


class Body:
    """The chunks that were kept, and whether all of it came in. Without a `holding` it counts for nothing.

    `keeping` ends where the budget has no room for it, or it is too large: then it is read and thrown away.
    """

    __slots__ = ("_holding", "_reserved", "chunks", "complete", "keeping")

    def __init__(self, holding: Holding | None = None) -> None:
        self.chunks: list[bytes] = []
        self.complete = False
        self.keeping = True
        self._holding = holding
        self._reserved = 0

    def arrived(self, size: int) -> None:
        """Count bytes as they come in, but those that were counted ahead."""
        ahead = min(size, self._reserved)
        self._reserved -= ahead
        self.take(size - ahead)

    def expect(self, size: int) -> None:
        """Count a body of this size before it is there, but what of it came already."""
        if self.keeping and self._holding is not None:
            more = max(0, size - self._holding.size)
            if self.take(more):
                self._reserved += more

    @property
    def most(self) -> int:
        """How many bytes more it can hold where nothing else is held."""
        return self._holding.most if self._holding is not None else 0

    def take(self, size: int) -> bool:
        """Count bytes that the request costs; False where there is no room for them."""
        if self._holding is None:
            return True
        return not size or (self.keeping and self._holding.take(size))

    def came(self) -> None:
        """All of it is there: it does not give way any more."""
        if self._holding is not None:
            self._holding.keep()

    def drop(self) -> None:
        """Keep nothing of it any more but its beginning."""
        self.keeping = False
        beginning = b"".join(chunk[:_BEGINNING] for chunk in self.chunks[:_BEGINNING])[:_BEGINNING]
        self.chunks[:] = [beginning] if beginning else []
        self.release()

    def release(self) -> None:
        if self._holding is not None:
            self._holding.release()

    async def read(self, receive: Receive, *, limit: int, length: int = 0) -> bytes:
        """The whole body, read in chunks under a running limit, for its `length` may lie or be absent (0).

        What is not kept is read on and thrown away, up to `_DISCARD` limits, so that the client gets to the answer;
        raises BadReview then (413), Overloaded, and BadReview where the client went away.
        """
        if length <= limit:
            self.expect(length)
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise BadReview(GONE)
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if self.keeping or not self.chunks:
                self.chunks.append(chunk)
            if max(size, length) > limit or not self.keeping:
                self.drop()
            if not message.get("more_body", False):
                self.complete = True
                break
            if size > limit * _DISCARD:
                break
        if max(size, length) > limit:
            raise BadReview(f"body: want at most {limit} bytes", status=413)
        if not self.keeping:
            raise Overloaded("too many bytes of reviews are under way")
        content = self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)
        self.chunks[:] = [content]
        return content


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
