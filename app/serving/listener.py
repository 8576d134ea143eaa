"""Binds the sockets of a role, and accepts their connections while the pool has slots, with TLS begun or not.

The pool bounds how many connections a port has. Each connection costs memory and a descriptor before it has said
anything. Where all slots are taken, the oldest connection that carries nothing gives way to the newest: first those
that never brought a whole request, then those that wait for the next one. A request under way is never cut off; where
all slots carry one, the newest is refused.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable

import structlog

from app.errors import UsageError
from app.logs import LogDedup
from app.serving.memory import Budget, trim_heap

_CONNECTION_BYTES = 256 * 1024
"""What becomes free with a connection, at most: the buffers of TLS."""
CONNECTIONS = 1024
"""On one port of one process. An idle one costs 50 to 310 KiB under TLS, and an API server keeps a few dozen."""
HANDSHAKE_SECONDS = 10.0
_RESERVED = 256
"""Descriptors that are left for files, watches and clients of ours."""
_RECEIVED_BYTES = 48 * 1024
"""What the kernel keeps of a connection that is not read, and so about what one read brings. Under TLS each connection
keeps buffers for the largest read that it ever had: with the kernel's default some 900 KiB."""
_AT_ONCE = 64
"""Connections accepted between two turns of the loop."""
_PAUSE_SECONDS = 0.1
_log = structlog.get_logger(__name__)


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound TCP socket; port 0 takes a free one. Raises OSError where the address is taken.

    `shared` sockets may be bound several times to one port; the kernel spreads connections over them.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, so that asyncio turns off Nagle's algorithm on what is accepted, as uvloop always does.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    sock.set_inheritable(True)
    return sock


def listen(flag: str, host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound socket; UsageError that names the flag where that cannot be."""
    try:
        return bind(host, port, shared=shared)
    except (OSError, TypeError) as error:  # a name that no host can have is a TypeError
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{flag} {port}: cannot listen on {host}: {reason}") from error


def address(listener: socket.socket, scheme: str) -> str:
    """Where the socket listens, as a URL."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def free_port(host: str) -> int:
    """A port that was free a moment ago, for a server that cannot be handed a socket."""
    with bind(host, 0) as sock:
        port: int = sock.getsockname()[1]
        return port


def allowed_connections(wanted: int = CONNECTIONS, *, descriptors: int = 2) -> int:
    """`wanted`, or less where the process may not open so many; `descriptors` is what one costs, on all its ports."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if limit == resource.RLIM_INFINITY else min(wanted, max(16, (limit - _RESERVED) // descriptors))


_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate",
    "HTTP_REQUEST": "the client speaks HTTP without TLS",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust our certificate",
}
"""Of OpenSSL's reasons those that need other words."""


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the client is refused: {error.verify_message}"
    return _REASONS.get(error.reason, error.reason.lower().replace("_", " ")) if error.reason else str(error)


class Listener:
    """Accepts on a bound socket from the moment it is made, until `close`; a server as uvicorn knows them.

    `protocol` makes the protocol of a connection that has a slot, and has to release the slot. After a `burst` of
    connections it rests for a tenth of a second, so that handshakes do not take all of the process; 0: never.
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
        self._lines, self._where = LogDedup(window=60.0), {"port": listener.getsockname()[1]}
        listener.setblocking(False)
        # What is accepted inherits it; uvloop would set it for each connection.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
        listener.listen(backlog)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener)

    async def wait_closed(self) -> None:
        """End the handshakes that are under way still."""
        opening = tuple(self._opening)
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # gone before it was its turn
            except OSError as error:
                self._wait_for_descriptors(error)
                return
            self._take(connection, f"{peer[0]}:{peer[1]}")
            self._left -= 1
            if not self._left:
                self._left = self._burst
                self._rest()
                return

    def _rest(self) -> None:
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(_PAUSE_SECONDS, self._loop.add_reader, self._listener, self._accept)

    def _take(self, connection: socket.socket, peer: str) -> None:
        if len(self._pool.taken) >= self._pool.limit:
            what = "all connections are taken; the oldest without a request are closed"
            self._lines.warning(what, self._where, limit=self._pool.limit)
        slot = self._pool.acquire()
        if slot is None:
            connection.close()
            return
        connection.setblocking(False)
        task = self._loop.create_task(self._open(connection, slot))
        slot.close = task.cancel
        self._opening.add(task)
        task.add_done_callback(lambda done: self._opened(done, connection, slot, peer))

    async def _open(self, connection: socket.socket, slot: Slot) -> None:
        protocol = self._protocol(slot)
        timeout = self._handshake if self._context is not None else None
        await self._loop.connect_accepted_socket(
            lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=timeout
        )

    def _opened(self, task: asyncio.Task[None], connection: socket.socket, slot: Slot, peer: str) -> None:
        self._opening.discard(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            # No protocol has this connection, so its slot is released here.
            slot.release()
            connection.close()
        # Without an end of file: probes of a port connect and close.
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            self._lines.warning("TLS handshake failed", self._where | {"reason": _reason(error)}, peer=peer)
        elif error is not None and not isinstance(error, OSError):
            _log.error("a connection could not be opened", error=type(error).__name__)

    def _wait_for_descriptors(self, error: OSError) -> None:
        """Out of descriptors or memory: give a quarter back, and try again in a moment, not at once and for ever."""
        self._lines.warning("cannot accept connections", self._where, error=error.strerror or str(error))
        for _ in range(1 + len(self._pool.taken) // 4):
            self._pool.evict()
        self._rest()


class Slot:
    """A place in the pool for one connection; `close` ends that connection at once."""

    __slots__ = ("_pool", "close")

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self.close: Callable[[], object] = lambda: None

    @property
    def budget(self) -> Budget:
        """Of all connections of the port."""
        return self._pool.budget

    def busy(self) -> None:
        self._pool.fresh.pop(self, None)
        self._pool.idle.pop(self, None)

    def idle(self) -> None:
        if self in self._pool.taken:
            self._pool.idle[self] = None

    def served(self) -> None:
        """It was busy and is idle again."""
        # An answer that came before the whole request has left it in both.
        if self in self._pool.idle and self not in self._pool.fresh:
            self._pool.idle.move_to_end(self)
        else:
            self.busy()
            self.idle()

    def release(self) -> None:
        """The connection is closed. A second call has no effect."""
        self.busy()
        pool = self._pool
        if self in pool.taken:
            pool.taken.remove(self)
            pool.ended += 1
            pool.budget.freed(_CONNECTION_BYTES)
            if pool.ended >= pool.limit:
                pool.ended = 0
                _collect()
        # Breaks the reference cycle, which would keep the memory of the connection until the next collection.
        self.close = lambda: None


class ConnectionPool:
    """The slots of one port. Those in `fresh` and `idle` may be closed for a new connection, the oldest first.

    `budget` is that of the bytes which requests on them hold.
    """

    def __init__(self, limit: int, *, budget: Budget | None = None) -> None:
        self.limit = limit
        self.budget = budget or Budget()
        self.ended = 0
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

    def evict(self) -> bool:
        """Close the oldest connection without a request; False where all of them carry one."""
        slot = next(iter(self.fresh or self.idle), None)
        if slot is None:
            return False
        close = slot.close
        slot.release()
        close()
        return True


def _collect() -> None:
    """Collect all cycles and trim the heap: some 30 ms after thousands of connections.

    A connection leaves cycles behind, and pieces of its buffers between those of others. Neither the garbage collector,
    which counts objects and not bytes, nor the allocator would free them in time: the process would grow in a flood.
    """
    gc.collect()
    trim_heap()
