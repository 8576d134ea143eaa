"""Accepts the callers' connections over TLS, bounds how many each caller has, and hands their bytes to gRPC.

gRPC's own listener can do the TLS too. But it bounds only all connections together, refuses the newest, and cannot be
asked to close one: a single certificate could take every slot. gRPC listens on a socket of this process alone, and
learns from the name of the other end whose connection it is. See ADR 11.

Certificate and client authorities follow their files: every handshake gets what the files hold then, and connections
that are open keep theirs. Files that cannot serve are never taken: the old ones stay in service and `problem()` says
why.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import socket
import ssl
from pathlib import Path

import structlog

from app.errors import UsageError
from app.kube.rate import Rate
from app.logs import LogDedup
from app.serving.listener import ConnectionPool, Listener, Slot, allowed_connections
from app.serving.tls import ServingCertificate, fault, read_certificates
from app.serving.tls_options import server_context
from app.tenancy.gateway.identity import independent_authorities
from app.tenancy.gateway.relaying import ALONE, End, FrameCosts
from app.tenancy.gateway.settings import GatewaySettings, Limits

log = structlog.get_logger(__name__)
_BACKLOG = 512
_PIECE = 4096
"""Bytes that are handed on before their cost is looked at."""
_TOO_FAST = "too fast"


class Front:
    """gRPC must listen on `target` before `start`.

    A connection belongs to its certificate until a call on it is recognized, and to the caller from then on. Neither
    has more than `connections_per_tenant`: one more closes the oldest. Where the pool is full, one that no caller has
    gives way. A sender that is over its rate of bytes, that of `callers` or of `strangers`, waits; nothing is lost.
    """

    def __init__(self, context: ssl.SSLContext, *, limits: Limits, lines: LogDedup) -> None:
        self._context, self._handshake, self._burst = context, limits.handshake, limits.handshakes
        self._pool = ConnectionPool(allowed_connections(limits.connections, descriptors=3))
        self._each = limits.connections_per_tenant
        self.callers: Rate[str] = Rate(per_second=limits.bytes_per_second, burst=limits.bytes_burst)
        self.strangers: Rate[str] = Rate(per_second=limits.strange_bytes_per_second, burst=limits.strange_bytes_burst)
        self._lines = lines
        # A name that is not a file: the root file system of a container is read-only.
        self._name = f"berth-gateway-{secrets.token_hex(8)}"
        self._known: dict[str, Connection] = {}
        self._held: dict[str, dict[Connection, None]] = {}

    @property
    def target(self) -> str:
        return f"unix-abstract:{self._name}"

    def start(self, listener: socket.socket) -> None:
        self._listener = Listener(
            listener,
            self._pool,
            lambda slot: Connection(self, slot),
            context=self._context,
            backlog=_BACKLOG,
            handshake=self._handshake,
            burst=self._burst,
        )

    def close(self) -> None:
        self._listener.close()

    async def wait_closed(self) -> None:
        await self._listener.wait_closed()
        for connection in [connection for held in self._held.values() for connection in held]:
            connection.abort()
            await connection.gone.wait()

    def connection(self, name: str) -> Connection | None:
        """The connection that gRPC knows by this name; None for one that is closed, or came another way."""
        return self._known.get(name)

    def forget_idle(self) -> None:
        self.callers.forget_idle()
        self.strangers.forget_idle()

    def hold(self, connection: Connection, holder: str) -> None:
        """The connection is this holder's from now on, its newest."""
        self.release(connection)
        connection.holder = holder
        held = self._held.setdefault(holder, {})
        held[connection] = None
        if len(held) > self._each:
            self.report("too many connections; the oldest is closed", connection)
            next(iter(held)).abort()

    def report(self, event: str, connection: Connection) -> None:
        """A line of the log for each holder now and then."""
        self._lines.warning(event, {"holder": connection.holder}, peer=connection.address)

    def release(self, connection: Connection) -> None:
        """Remove the connection from its holder."""
        if (held := self._held.get(connection.holder)) is not None:
            held.pop(connection, None)
            if not held:
                del self._held[connection.holder]

    async def hand_on(self, connection: Connection) -> None:
        """Connect the other end, to gRPC. Raises OSError where gRPC takes no more."""
        name = f"{self._name}-{secrets.token_hex(8)}"  # random, so that another process cannot bind it first
        name_of_end = f"unix-abstract:{name}"
        inside = End(lost=lambda: self._known.pop(name_of_end, None))
        inside.other, connection.other = connection, inside
        ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        loop = asyncio.get_running_loop()
        try:
            ours.setblocking(False)
            ours.bind(f"\0{name}")
            self._known[name_of_end] = connection
            await loop.sock_connect(ours, f"\0{self._name}")
            await loop.create_unix_connection(lambda: inside, sock=ours)
        except BaseException:
            self._known.pop(name_of_end, None)
            if inside.transport is not None:
                inside.transport.abort()
            else:
                ours.close()
            raise


class Connection(End):
    """The end at the caller: its `address`, and its certificate in PEM."""

    def __init__(self, front: Front, slot: Slot) -> None:
        super().__init__()
        self.address, self.pem, self.holder = "", b"", ""
        self.gone = asyncio.Event()
        self._front, self._slot = front, slot
        self._recognized = False
        self._costs = FrameCosts()
        self._waiting = bytearray()
        self._handing: asyncio.Task[None] | None = None

    def belongs_to(self, caller: str) -> None:
        """A call of this caller was recognized on it: strangers' connections give way to it, not it to theirs."""
        if self._recognized and self.holder == caller:
            return
        self._recognized = True
        self._slot.busy()
        self._front.hold(self, caller)
        self.go_on(_TOO_FAST)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.stop(ALONE)
        self._slot.close = self.abort
        address = transport.get_extra_info("peername")
        self.address = f"{address[0]}:{address[1]}" if address else ""
        der = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        self.pem = ssl.DER_cert_to_PEM_cert(der).encode()
        self._front.hold(self, f"certificate {hashlib.sha256(der).hexdigest()}")
        self._handing = asyncio.get_running_loop().create_task(self._hand_on())

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        self._pass_on()

    def _pass_on(self) -> None:
        """In pieces: what comes in at once may cost what a second has."""
        while self._waiting and not self._stopped:
            piece = bytes(self._waiting[:_PIECE])
            del self._waiting[:_PIECE]
            cost = self._costs.of(piece)
            if self._costs.endless:
                self._front.report("headers without an end; the connection is closed", self)
                self.abort()
                return
            super().data_received(piece)
            rate = self._front.callers if self._recognized else self._front.strangers
            if delay := rate.spend(self.holder, cost):
                self.stop(_TOO_FAST)
                asyncio.get_running_loop().call_later(delay, self.go_on, _TOO_FAST)

    def go_on(self, reason: str) -> None:
        super().go_on(reason)
        self._pass_on()

    def connection_lost(self, error: Exception | None) -> None:
        self.abort()  # the caller is gone: gRPC need not read what is left
        self._waiting.clear()
        super().connection_lost(error)
        if self._handing is not None:
            self._handing.cancel()
        self._front.release(self)
        self._slot.release()
        self.gone.set()

    async def _hand_on(self) -> None:
        try:
            await self._front.hand_on(self)
        except OSError as error:
            log.info("a connection cannot be handed on", peer=self.address, error=error.strerror or str(error))
            self.abort()
        else:
            self.go_on(ALONE)


class ServingCredentials(ServingCertificate):
    """Raises `UsageError` where the files cannot serve at the start.

    `admin_ca` says who may speak for the cloud admin (PEM), as of the last look; None where the name alone decides.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self._admin_file, self._admin_problem = settings.admin_ca, ""
        try:
            super().__init__(
                settings.tls_cert_file,
                settings.tls_private_key_file,
                new_context=_context,
                client_cas=[settings.client_ca],
                at_each_handshake=True,
            )
            self.admin_ca = _authorities(settings.admin_ca)
        except UsageError as error:
            raise UsageError(f"gateway {error}") from error
        except (OSError, ValueError) as error:
            raise UsageError(f"gateway TLS: {fault(error)}") from error
        if settings.admin_ca is None:
            authorities, links = (Path(file).read_bytes() for file in (settings.client_ca, settings.tls_cert_file))
            count = independent_authorities(authorities, links=links)
            if count > 1:
                log.warning("each of several authorities can name itself the cloud admin", authorities=count)

    def look(self) -> None:
        """Look at the files; where they cannot serve, the old ones stay, and there is a problem."""
        super().look()
        try:
            self.admin_ca, self._admin_problem = _authorities(self._admin_file), ""
        except (OSError, ValueError) as error:
            self._admin_problem = fault(error)

    def problem(self) -> str:
        """Why readiness must be false; "" while the certificate that is served is sound."""
        return super().problem() or self._admin_problem


def _context() -> ssl.SSLContext:
    context, _ = server_context(require_client_certificate=True, protocol="h2")
    # An intermediate authority in the file is trusted by itself, as Go and gRPC do.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _authorities(file: str | None) -> bytes | None:
    """The PEM of these authorities. Raises OSError or ValueError, with the file in the text."""
    if file is None:
        return None
    pem = Path(file).read_bytes()
    read_certificates(pem, source=Path(file))
    return pem
