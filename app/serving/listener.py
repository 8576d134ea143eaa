"""Accepts the connections of one port, and bounds how many are open: TLS that was never begun counts as well.

Each connection costs memory and a descriptor before it has said anything. Where all slots are taken, the oldest
connection that carries nothing gives way to the newest: first those that never brought a whole request, then those
that wait for the next one. A request under way is never cut off; where all slots carry one, the newest is refused.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable

import structlog

from app.serving.tidying import give_back

CONNECTIONS = 2048
"""On one port of one process. An idle one costs about 50 KiB under TLS, and an API server keeps a few dozen."""

HANDSHAKE_SECONDS = 10.0

_RESERVED = 256
"""Descriptors that are left for files, watches and clients of ours."""
_AT_ONCE = 64
"""Connections accepted between two turns of the loop."""
_PAUSE_SECONDS = 0.1
_SAID_AGAIN_SECONDS = 60.0

_log = structlog.get_logger(__name__)


def allowed_connections(wanted: int = CONNECTIONS, *, descriptors: int = 2) -> int:
    """`wanted`, or less where this process may not open so many descriptors.

    Each connection costs as many `descriptors`, those of the process's other ports included.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if limit == resource.RLIM_INFINITY else min(wanted, max(16, (limit - _RESERVED) // descriptors))


def _nothing() -> None:
    """No-op, for a connection that is not open."""


class Slot:
    """A place in the pool for one connection; `close` ends that connection at once."""

    __slots__ = ("_pool", "close")

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self.close: Callable[[], object] = _nothing

    def busy(self) -> None:
        """The connection carries a request from now on."""
        self._pool.fresh.pop(self, None)
        self._pool.idle.pop(self, None)

    def idle(self) -> None:
        """Its request was answered."""
        if self in self._pool.taken:
            self._pool.idle[self] = None

    def release(self) -> None:
        """The connection is closed. A second call has no effect."""
        self.busy()
        self._pool.released(self)
        # Breaks the reference cycle, which would keep the memory of the connection until the next collection.
        self.close = _nothing


class ConnectionPool:
    """The slots of one port. Those in `fresh` and `idle` may be closed for a new connection, the oldest first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._ended = 0
        self.taken: set[Slot] = set()
        self.fresh: OrderedDict[Slot, None] = OrderedDict()
        self.idle: OrderedDict[Slot, None] = OrderedDict()

    def acquire(self) -> Slot | None:
        """A slot, if necessary that of another connection; None where all of them carry requests."""
        if len(self.taken) >= self.limit and not self.evict():
            return None
        slot = Slot(self)
        self.taken.add(slot)
        self.fresh[slot] = None
        return slot

    def released(self, slot: Slot) -> None:
        """Count the slot as free; only the first call for a slot counts."""
        if slot in self.taken:
            self.taken.remove(slot)
            self._ended += 1
            if self._ended >= self.limit:
                self._ended = 0
                give_back()

    def evict(self) -> bool:
        """Close the oldest connection without a request; False where all of them carry one."""
        for kind in (self.fresh, self.idle):
            if kind:
                slot = next(iter(kind))
                close = slot.close
                slot.release()
                close()
                return True
        return False


class Listener:
    """Accepts on a bound socket from the moment it is made, until `close`; a server as uvicorn knows them.

    `protocol` makes the protocol of a connection that has a slot, and must see to it that the slot is left. After a
    `burst` of connections it rests for a tenth of a second, for handshakes shall not take all of the process. 0: never.
    """

    def __init__(
        self,
        listener: socket.socket,
        pool: ConnectionPool,
        protocol: Callable[[Slot], asyncio.Protocol],
        *,
        context: ssl.SSLContext | None,
        backlog: int,
        handshake: float = HANDSHAKE_SECONDS,
        burst: int = 0,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._handshake = handshake
        self._burst = self._left = burst
        self._listener, self._pool, self._protocol = listener, pool, protocol
        self._context = context
        self._opening: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._said = -_SAID_AGAIN_SECONDS
        listener.setblocking(False)
        # What is accepted inherits it; uvloop would set it for each connection.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.listen(backlog)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener)

    async def wait_closed(self) -> None:
        """End the handshakes that are under way still."""
        for task in tuple(self._opening):
            task.cancel()
        if self._opening:
            await asyncio.wait(tuple(self._opening))

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # gone before it was its turn
            except OSError as error:
                self._wait_for_descriptors(error)
                return
            self._take(connection)
            if self._burst and not self._rested():
                return

    def _rested(self) -> bool:
        """Whether the burst is not over; else there is a pause, and then another burst."""
        self._left -= 1
        if self._left:
            return True
        self._left = self._burst
        self._rest()
        return False

    def _rest(self) -> None:
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(_PAUSE_SECONDS, self._loop.add_reader, self._listener, self._accept)

    def _take(self, connection: socket.socket) -> None:
        if len(self._pool.taken) >= self._pool.limit:
            self._say("all connections are taken; the oldest without a request are closed", limit=self._pool.limit)
        slot = self._pool.acquire()
        if slot is None:
            connection.close()
            return
        connection.setblocking(False)
        task = self._loop.create_task(self._open(connection, slot))
        slot.close = task.cancel
        self._opening.add(task)
        task.add_done_callback(lambda done: self._opened(done, connection, slot))

    async def _open(self, connection: socket.socket, slot: Slot) -> None:
        protocol = self._protocol(slot)
        await self._loop.connect_accepted_socket(
            lambda: protocol,
            connection,
            ssl=self._context,
            ssl_handshake_timeout=self._handshake if self._context is not None else None,
        )

    def _opened(self, task: asyncio.Task[None], connection: socket.socket, slot: Slot) -> None:
        self._opening.discard(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            # No protocol has this connection, so its slot is released here.
            slot.release()
            connection.close()
        if error is not None and not isinstance(error, OSError):
            _log.error("a connection could not be opened", error=type(error).__name__)

    def _wait_for_descriptors(self, error: OSError) -> None:
        """Out of descriptors or memory: give a quarter back, and try again in a moment, not at once and for ever."""
        self._say("cannot accept connections", error=error.strerror or str(error))
        for _ in range(1 + len(self._pool.taken) // 4):
            self._pool.evict()
        self._rest()

    def _say(self, what: str, **more: object) -> None:
        """Log a warning at most once a minute, so that a flood of connections does not fill the log."""
        if time.monotonic() - self._said >= _SAID_AGAIN_SECONDS:
            self._said = time.monotonic()
            _log.warning(what, port=self._listener.getsockname()[1], **more)
