"""Receives the request of a recognized caller: how many bytes are read at a time, and where they are parsed.

gRPC buffers a little of each call (`unread_bytes`) and reads more on demand. A request that does not arrive completely
in time ends its call.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio
from google.protobuf.message import DecodeError

from app.kube.turns import Turns
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.options import Limits
from app.tenancy.gateway.reading import SMALL_MESSAGE, Readers

Context = grpc.aio.ServicerContext[Any, Any]
Parse = Callable[[bytes], Any]
_LARGE_REQUESTS = 4
"""Of all callers together; one of each."""


class Receiving:
    """What cannot be read as a message ends the call with INVALID_ARGUMENT. `label` is the caller's."""

    def __init__(self, limits: Limits, readers: Readers) -> None:
        self._requests = Turns(total=limits.requests, each=limits.requests_per_tenant)
        self._large = Turns(total=_LARGE_REQUESTS, each=1)
        self._seconds = limits.exchange
        self._readers = readers

    @contextlib.asynccontextmanager
    async def request(self, parse: Parse, context: Context, label: str) -> AsyncIterator[Any]:
        """The request of a unary call. It counts among those of its caller for as long as the block runs."""
        async with contextlib.AsyncExitStack() as held:
            await held.enter_async_context(self._requests.of(label))
            raw = await self._arrived(context)
            if len(raw) > SMALL_MESSAGE:
                # Taken apart it is many times larger.
                await held.enter_async_context(self._large.of(label))
            yield await self._parsed(parse, raw, label)

    async def first(self, parse: Parse, context: Context, label: str) -> Any:
        """The request of a call whose answer is a stream."""
        return await self._parsed(parse, await self._arrived(context), label)

    async def each(self, parse: Parse, context: Context, label: str) -> AsyncIterator[Any]:
        """The messages of a stream."""
        while (raw := await context.read()) is not grpc.aio.EOF:
            yield await self._parsed(parse, raw, label)

    async def _arrived(self, context: Context) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                raw = await context.read()
        except TimeoutError as error:
            message = f"the request did not come in whole within {self._seconds:g} s"
            raise Refused(Code.DEADLINE_EXCEEDED, message) from error
        if raw is grpc.aio.EOF:
            raise Refused(Code.INVALID_ARGUMENT, "the call carries no request")
        return bytes(raw)

    async def _parsed(self, parse: Parse, raw: bytes, label: str) -> Any:
        try:
            return await self._readers.read(lambda: parse(raw), size=len(raw), tenant=label, small=SMALL_MESSAGE)
        except DecodeError as error:
            raise Refused(Code.INVALID_ARGUMENT, "the request cannot be read as a message of this method") from error
