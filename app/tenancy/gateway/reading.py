"""Receives and reads requests: small ones at once, large ones in a thread, so that they do not delay other calls.

gRPC buffers a little of each call (`unread_bytes`) and reads more on demand. A request that does not arrive
completely in time ends its call. What reading costs is known only when it is done: a megabyte may take a millisecond
or a second. So it is measured, and a caller whose requests took more than its share of a core waits before its next
one is read.

Answers are made of messages encoded before: no object is encoded a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, NoReturn, TypeVar

import grpc.aio
from google.protobuf.message import DecodeError, Message

from app.kube.rate import Rate
from app.kube.turns import Turns
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.settings import Limits

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]
Parse = Callable[[bytes], Any]
_LARGE_REQUESTS = 4
"""Of all callers together; one of each."""
_SMALL = 4096
"""Bytes that are read at once."""
SMALL_MESSAGE = 32 * 1024
"""As much of a protobuf message is: it takes a tenth of the time that as much of a manifest takes."""
_DELIMITED = 2
"""The wire type of messages and texts."""


class Readers:
    """Large requests are read two at a time, and one of each tenant; each has its share of a core."""

    def __init__(self, limits: Limits) -> None:
        self._turns = Turns(total=2, each=1)
        self._cpu: Rate[str] = Rate(per_second=limits.reading_share, burst=limits.reading_burst)
        self.forget_idle = self._cpu.forget_idle
        self._under_way: set[asyncio.Task[Any]] = set()

    async def read(self, work: Callable[[], T], *, size: int, tenant: str, small: int = _SMALL) -> T:
        """What `work` returns or raises; it must not touch what belongs to the event loop."""
        if size <= small:
            await self._cpu.turn(tenant, 0.0)
            seconds, result = _timed(work)
            self._cpu.spend(tenant, seconds)
            return result()
        async with contextlib.AsyncExitStack() as turn:
            while True:
                await self._cpu.turn(tenant, 0.0)
                await turn.enter_async_context(self._turns.of(tenant))
                if not self._cpu.take(tenant, 0.0):
                    break
                await turn.aclose()  # what was read before it has used up the share
            # A caller that hangs up ends its call, not the thread: that has its turn, and counts, until it is done.
            reading = asyncio.create_task(self._beside(work, tenant, turn.pop_all()))
            self._under_way.add(reading)
            reading.add_done_callback(self._under_way.discard)
            return (await asyncio.shield(reading))()

    async def read_message(self, work: Callable[[], T], *, size: int, tenant: str) -> T:
        """The same for a protobuf message."""
        return await self.read(work, size=size, tenant=tenant, small=SMALL_MESSAGE)

    async def _beside(self, work: Callable[[], T], tenant: str, turn: contextlib.AsyncExitStack) -> Callable[[], T]:
        async with turn:
            seconds, result = await asyncio.to_thread(_timed, work)
            self._cpu.spend(tenant, seconds)
            return result


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
            return await self._readers.read_message(lambda: parse(raw), size=len(raw), tenant=label)
        except DecodeError as error:
            raise Refused(Code.INVALID_ARGUMENT, "the request cannot be read as a message of this method") from error


def field_of(message: type[Message], name: str) -> Callable[[bytes], bytes]:
    """Makes the bytes of one entry of that field from the encoding of its message.

    The entries of a repeated field may follow each other; one alone is a whole message.
    """
    tag = _varint(message.DESCRIPTOR.fields_by_name[name].number << 3 | _DELIMITED)
    return lambda encoded: tag + _varint(len(encoded)) + encoded


def passing(serialize: Callable[[Message], bytes]) -> Callable[[Message | bytes], bytes]:
    """The serializer of a method whose answers may be encoded already."""
    return lambda answer: answer if isinstance(answer, bytes) else serialize(answer)


def _timed(work: Callable[[], T]) -> tuple[float, Callable[[], T]]:
    """The seconds of CPU that the work took, and its outcome: to be called, it returns or raises what the work did."""
    began = time.thread_time()
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 - raised by the outcome
        return time.thread_time() - began, partial(_raise, error)
    return time.thread_time() - began, lambda: result


def _raise(error: Exception) -> NoReturn:
    raise error


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
