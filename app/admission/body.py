"""The body of one request while it comes in, and what it holds of the budget of its port until it is answered."""

from __future__ import annotations

from starlette.types import Receive

from app.errors import BadReview, Overloaded
from app.serving.memory import Holding

GONE = "the client closed the connection before the body was complete"
_DISCARD = 4
_BEGINNING = 1024
"""Bytes that are kept of a body that is not: the uid of the review is in them."""


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
