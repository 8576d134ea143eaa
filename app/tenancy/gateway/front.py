"""Accepts the callers' connections over TLS, bounds how many each caller has, and hands their bytes to gRPC.

gRPC's own listener can do the TLS too. But it bounds only all connections together, refuses the newest, and cannot be
asked to close one: a single certificate could take every place. Here a caller with too many connections loses its own
oldest, and where all places are taken a connection of an unknown certificate gives way (`Room`). gRPC listens on a
socket of this process alone, and learns from the name of the other end whose connection it is.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from app.serving.accepting import Door, Place, Room
from app.tenancy.gateway.relaying import End
from app.tenancy.gateway.sparing import SparingLog

_BACKLOG = 512

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a connection: its address, its certificate in PEM; `close` ends the connection."""

    address: str
    pem: bytes | None
    close: Callable[[], None]


class Front:
    """gRPC must listen on `target` before `start`.

    `holder` names the caller that a certificate (PEM) is of, None for one of no caller that is known. No caller has
    more than `each` connections. A TLS handshake may take `handshake` seconds.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        room: Room,
        each: int,
        handshake: float,
        holder: Callable[[bytes], str | None],
        lines: SparingLog,
    ) -> None:
        self._context, self._room, self._each, self._handshake = context, room, each, handshake
        self._holder = holder
        self._lines = lines
        # A name that is no file: the root file system of a container is read-only.
        self._name = f"berth-gateway-{secrets.token_hex(8)}"
        self._numbers = itertools.count()
        self._peers: dict[str, Peer] = {}
        self._held: dict[str, OrderedDict[_Outside, None]] = {}
        self._open: set[_Outside] = set()
        self._door: Door | None = None

    @property
    def target(self) -> str:
        """Where gRPC is to listen."""
        return f"unix-abstract:{self._name}"

    def start(self, listener: socket.socket) -> None:
        """Accept on this bound socket."""
        self._door = Door(
            listener,
            self._room,
            lambda place: _Outside(self, place),
            context=self._context,
            backlog=_BACKLOG,
            handshake=self._handshake,
        )

    def close(self) -> None:
        """Accept no more."""
        if self._door is not None:
            self._door.close()

    async def wait_closed(self) -> None:
        """End what is open still."""
        if self._door is not None:
            await self._door.wait_closed()
        for connection in tuple(self._open):
            connection.abort()
            await connection.gone.wait()

    def peer(self, name: str) -> Peer | None:
        """Whose connection it is that gRPC knows by this name; None for one that is closed, or came another way."""
        return self._peers.get(name)

    def opened(self, connection: _Outside, peer: Peer) -> None:
        """The handshake of a connection is over."""
        self._open.add(connection)
        holder = self._holder(peer.pem) if peer.pem is not None else None
        if holder is None:
            return
        # It gives way to others of its holder alone; strangers give way to it.
        connection.place.busy()
        connection.holder = holder
        held = self._held.setdefault(holder, OrderedDict())
        held[connection] = None
        if len(held) > self._each:
            self._lines.warning(
                "a caller has too many connections; its oldest is closed", {"caller": holder}, peer=peer.address
            )
            oldest, _ = held.popitem(last=False)
            oldest.abort()

    def closed(self, connection: _Outside) -> None:
        """A connection is no more."""
        self._open.discard(connection)
        connection.place.leave()
        held = self._held.get(connection.holder, OrderedDict())
        held.pop(connection, None)
        if not held:
            self._held.pop(connection.holder, None)

    async def hand_on(self, connection: _Outside, peer: Peer) -> None:
        """Connect to gRPC for a connection of this peer. Raises OSError where gRPC takes no more."""
        name = f"{self._name}-{next(self._numbers)}"
        known = f"unix-abstract:{name}"
        inside = _Inside(lambda: self._peers.pop(known, None))
        inside.other, connection.other = connection, inside
        ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        loop = asyncio.get_running_loop()
        try:
            ours.setblocking(False)
            ours.bind(f"\0{name}")
            self._peers[known] = peer
            await loop.sock_connect(ours, f"\0{self._name}")
            await loop.create_unix_connection(lambda: inside, sock=ours)
        except BaseException:
            self._peers.pop(known, None)
            if inside.transport is not None:
                inside.transport.abort()
            else:
                ours.close()
            raise


class _Inside(End):
    """The end at gRPC."""

    def __init__(self, lost: Callable[[], object]) -> None:
        super().__init__()
        self._lost = lost

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._lost()


class _Outside(End):
    """The end at the caller, in the place that it has at the door."""

    def __init__(self, front: Front, place: Place) -> None:
        super().__init__()
        self.place = place
        self.holder = ""
        self.gone = asyncio.Event()
        self._front = front
        self._handing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.place.close = self.abort
        assert self.transport is not None  # noqa: S101 - it was just set
        self.transport.pause_reading()  # until the other end is there
        peer = self._peer(self.transport)
        self._front.opened(self, peer)
        self._handing = asyncio.get_running_loop().create_task(self._hand_on(self.transport, peer))

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._handing is not None:
            self._handing.cancel()
        self._front.closed(self)
        self.gone.set()

    async def _hand_on(self, transport: asyncio.Transport, peer: Peer) -> None:
        try:
            await self._front.hand_on(self, peer)
        except OSError as error:
            log.info("a connection cannot be handed on", peer=peer.address, error=error.strerror or str(error))
            self.abort()
        else:
            if not transport.is_closing():
                transport.resume_reading()

    def _peer(self, transport: asyncio.Transport) -> Peer:
        address = transport.get_extra_info("peername")
        text = f"{address[0]}:{address[1]}" if address else ""
        der = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return Peer(text, ssl.DER_cert_to_PEM_cert(der).encode() if der else None, self.abort)
