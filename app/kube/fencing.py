"""Keeps writes inside a term of leadership: none begins after it, none is waited for after it.

The check is made before a write is begun (`KubeClient.within`), and again in the step of the event loop that hands its
bytes to the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from app.errors import ApiError
from app.kube.official import aiohttp


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


@dataclass(eq=False, slots=True)
class _Write:
    """One write under way, and the connection that it has got."""

    fence: Fence
    timeout: asyncio.Timeout
    transport: asyncio.Transport | None = None
    was_cut: bool = False

    def cut(self) -> None:
        # Once: a write that was cut may take its time to end, and the fence be closed meanwhile.
        if not self.was_cut:
            self.was_cut = True
            self.timeout.reschedule(0.0)
            if self.transport is not None and not self.transport.is_closing():
                reset(self.transport)


def reset(transport: asyncio.Transport) -> None:
    """Discard what the kernel has not sent yet: after a plain close it would go on sending, for minutes.

    A server behind a line that was down must not get a request of long ago when the line is up again.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


_SENDING: ContextVar[_Write | None] = ContextVar("sending", default=None)
"""The write that the current task is about to send."""


class FencedRequest(aiohttp.ClientRequest):
    """Checks the fence again before the body: to get a connection takes time, in which a process may freeze.

    Another task writes the body, and headers wait for it, so nothing of the request has left before. Every write has
    a body.
    """

    async def write_bytes(self, writer: Any, conn: Any, *more: Any) -> None:
        write = _SENDING.get()
        if write is not None:
            write.transport = conn.transport
            try:
                write.fence.check()
            except LeaseLost:
                write.cut()
                return
        await super().write_bytes(writer, conn, *more)
