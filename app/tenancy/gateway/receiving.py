"""Makes messages of what came in: how many bytes a second of each caller's streams, and where they are parsed.

It is asked once the caller is known, and nothing is parsed before. A sender that is too fast waits; nothing is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from google.protobuf.message import DecodeError

from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.limits import Rate
from app.tenancy.gateway.options import Limits
from app.tenancy.gateway.reading import SMALL_MESSAGE, Readers

Read = Callable[[Any, str], Awaitable[Any]]
"""From what came in, and the label of the caller, to what a method takes."""


class Receiving:
    """What cannot be read as a message ends the call with INVALID_ARGUMENT."""

    def __init__(self, limits: Limits, readers: Readers) -> None:
        self._rate = Rate(per_second=limits.stream_bytes_per_second, burst=limits.stream_bytes_burst)
        self._readers = readers

    def reader(self, parse: Callable[[bytes], Any], *, many: bool) -> Read:
        """For a method that takes one message, or a stream of `many`."""

        async def one(raw: bytes, label: str) -> Any:
            try:
                return await self._readers.read(lambda: parse(raw), size=len(raw), tenant=label, small=SMALL_MESSAGE)
            except DecodeError as error:
                message = "the request cannot be read as a message of this method"
                raise Refused(Code.INVALID_ARGUMENT, message) from error

        async def each(raws: AsyncIterator[bytes], label: str) -> AsyncIterator[Any]:
            async for raw in raws:
                await self._rate.turn(label, len(raw))
                yield await one(raw, label)

        async def stream(raws: AsyncIterator[bytes], label: str) -> AsyncIterator[Any]:
            return each(raws, label)

        return stream if many else one

    def forget_idle(self) -> None:
        self._rate.forget_idle()
