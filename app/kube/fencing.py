"""Keeps writes inside a term of leadership: none begins after it, none is waited for after it.

Owns the check and the places where it is made: before a write is begun (`AioKubeClient.within`), and again in the step
of the event loop that hands its bytes to the connection. Knows no Lease; what a term is, the elector says.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import aiohttp

from app.errors import ApiError


class LeaseLost(ApiError):
    """The write was not sent, or its answer was not waited for: this process may not lead any more."""

    def __init__(self) -> None:
        super().__init__("the Lease is not held any more: nothing is written", status=0, reason="LeaseLost")


class Fence:
    """One term. `in_time` says at any moment whether writes may begin; once closed, a fence stays so."""

    def __init__(self, in_time: Callable[[], bool]) -> None:
        self._in_time = in_time
        self._closed = False
        self._under_way: set[_Write] = set()

    def check(self) -> None:
        """Raises LeaseLost where nothing may be written any more."""
        if self._closed or not self._in_time():
            raise LeaseLost

    def close(self) -> None:
        """The term is over: cut what is under way, with the connections that it went out on."""
        self._closed = True
        for write in tuple(self._under_way):
            write.cut()

    @contextlib.asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Around one write. Raises LeaseLost instead of beginning it, and where the term ends before its answer."""
        self.check()
        try:
            async with asyncio.timeout(None) as timeout:
                write = _Write(self, timeout)
                before = _SENDING.set(write)
                self._under_way.add(write)
                try:
                    yield
                finally:
                    self._under_way.discard(write)
                    _SENDING.reset(before)
        except TimeoutError:
            if timeout.expired():
                raise LeaseLost from None
            raise


class _Write:
    """One write under way, and the connection that it has got."""

    def __init__(self, fence: Fence, timeout: asyncio.Timeout) -> None:
        self.fence = fence
        self._timeout = timeout
        self.transport: asyncio.Transport | None = None
        self._cut = False

    def cut(self) -> None:
        # Once: what is cut may take its time to end, and the fence be closed meanwhile.
        if self._cut:
            return
        self._cut = True
        self._timeout.reschedule(0.0)
        if self.transport is not None and not self.transport.is_closing():
            reset(self.transport)


def reset(transport: asyncio.Transport) -> None:
    """Throw away what the kernel has not got through yet: a plain close would go on sending it, for minutes if need be.

    A server behind a line that was down must not get a request of long ago when the line is up again.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


_SENDING: ContextVar[_Write | None] = ContextVar("sending", default=None)
"""The write that the current task is about to send."""


class FencedConnector(aiohttp.TCPConnector):
    """Asks the fence once more when the connection is there: to get one takes time, in which a process may freeze."""

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        connection = await super().connect(*arguments, **options)
        write = _SENDING.get()
        if write is not None:
            try:
                write.fence.check()
            except LeaseLost:
                connection.release()
                raise
            write.transport = connection.transport
        return connection


class FencedRequest(aiohttp.ClientRequest):
    """Asks the fence a last time: a body is written by a task of its own, before whose first step a process may freeze.

    Headers wait for the body, so nothing of the request has left before.
    """

    async def write_bytes(self, *arguments: Any, **options: Any) -> None:
        write = _SENDING.get()
        if write is not None:
            try:
                write.fence.check()
            except LeaseLost:
                write.cut()
                return
        await super().write_bytes(*arguments, **options)
