"""A TCP proxy that can cut, stall and refuse: what lies between a role and a server, and what a killed role had open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class Proxy:
    """Relays from a port of its own to whatever port `target` names when a connection comes in (0: nobody is there)."""

    def __init__(self, target: Callable[[], int]) -> None:
        self._target = target
        self._pipes: set[_Pipe] = set()
        self._dialing: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._dead = False
        self.port = 0
        self.refusing = False
        self.stalled = False

    async def start(self) -> Proxy:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Front(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def cut(self) -> None:
        """Reset every connection; new ones are welcome."""
        for pipe in tuple(self._pipes):
            pipe.abort()

    def stall(self) -> None:
        """Let nothing through, in neither direction, and tell nobody."""
        self.stalled = True

    def resume(self) -> None:
        self.refusing, self.stalled = self._dead, False
        for pipe in tuple(self._pipes):
            pipe.flush()

    def die(self) -> None:
        """What a killed process leaves: every connection reset, and nobody who dials any more."""
        self._dead = self.refusing = True
        self.cut()
        for task in self._dialing:
            task.cancel()

    async def close(self) -> None:
        """Free the port, when all that was accepted has been reset as well."""
        self.die()
        if self._server is None:
            return
        # A server that closes in the turn in which it accepts drops the new transport without closing it.
        for listener in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listener)
        await asyncio.gather(*self._dialing, return_exceptions=True)
        while self._pipes:  # transports close in turns of their own
            self.cut()
            await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        self._server.close()

    def dial(self, front: _Pipe) -> None:
        task = asyncio.create_task(self._dial(front))
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)

    async def _dial(self, front: _Pipe) -> None:
        try:
            if not (port := self._target()):
                raise ConnectionRefusedError
            _, back = await asyncio.get_running_loop().create_connection(lambda: _Pipe(self), "127.0.0.1", port)
        except OSError:
            front.abort()
            return
        front.other, back.other = back, front
        if front.closed or self.refusing:
            front.abort()
            back.abort()
        front.flush()
        back.flush()

    def joined(self, pipe: _Pipe) -> None:
        self._pipes.add(pipe)

    def left(self, pipe: _Pipe) -> None:
        self._pipes.discard(pipe)


class _Pipe(asyncio.Protocol):
    """One end of a relayed connection; what cannot be passed on yet is held."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.other: _Pipe | None = None
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self._held: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.proxy.joined(self)

    def data_received(self, data: bytes) -> None:
        self._held.append(data)
        self.flush()

    def flush(self) -> None:
        if self.other is None or self.other.transport is None or self.proxy.stalled:
            return
        for data in self._held:
            self.other.transport.write(data)
        self._held.clear()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.proxy.left(self)
        if self.other is not None and self.other.transport is not None:
            if exc is None:
                self.other.transport.close()
            else:
                self.other.transport.abort()


class _Front(_Pipe):
    """The end that the role has dialed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.proxy.refusing:
            self.abort()
        else:
            self.proxy.dial(self)
