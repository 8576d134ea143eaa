"""An application on a loopback port, in the running event loop and without signal handlers; uvicorn serves it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any, Self

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_GRACE = 1
"""Seconds that requests get to end at a stop."""
_STOPPED = "stopped"
"""In the state of connections: their server has stopped."""
_TURNS = 10
"""Turns of the loop in which aborted connections end."""


class Protocol(HttpToolsProtocol):
    """`scope["state"]` has the connection as `transport`, and as `peer_certificate` its client's (DER), or None."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base class has it
        super().connection_made(transport)
        if _STOPPED in self.app_state:
            transport.abort()  # its handshake outlasted the server
            return
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self.app_state = {**self.app_state, "peer_certificate": certificate, "transport": transport}

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: the application answers a request for another protocol as any other.

        The base class would log how to install a library for WebSockets.
        """


class Listening:
    """A port on which the application is served, from `start` until `stop`."""

    def __init__(self, server: uvicorn.Server, listener: socket.socket, loop: asyncio.Task[None]) -> None:
        self._server, self._listener, self._loop = server, listener, loop
        self.port: int = listener.getsockname()[1]

    @classmethod
    async def start(
        cls,
        app: Any,
        address: str,
        port: int,
        context: ssl.SSLContext | None,
        *,
        name: str,
        protocol: type[Protocol] = Protocol,
        **options: Any,
    ) -> Self:
        """Serve an ASGI application at this IPv4 address; `options` are uvicorn's.

        Port 0 takes a free one. Raises OSError where the port is taken. Without a context there is no TLS.
        """
        listener = _bound(address, port)
        config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
            ssl_context_factory=(lambda _config, _default: context) if context is not None else None,
            **options,
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[listener])
        # Not `serve`: it installs signal handlers, and those are the caller's.
        return cls(server, listener, asyncio.create_task(server.main_loop(), name=name))

    async def stop(self, *, at_once: bool = False) -> None:
        """Answer what is under way and cut all connections; `at_once` cuts them first."""
        self._server.should_exit = True
        self._server.lifespan.state[_STOPPED] = True
        await self._loop
        # A listener that closes in the turn in which it accepts drops the new connection without closing it.
        asyncio.get_running_loop().remove_reader(self._listener)
        await asyncio.sleep(0)
        if at_once:
            await self.cut()
        await self._server.shutdown(sockets=[self._listener])
        await self.cut()

    async def cut(self) -> None:
        """Abort all connections: an idle client need not answer TLS's farewell, and would keep its socket open."""
        for connection in list(self._server.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        for _ in range(_TURNS):
            await asyncio.sleep(0)


def _bound(address: str, port: int) -> socket.socket:
    # The protocol is named so that asyncio turns off Nagle's algorithm: else every answer waits for an ACK, 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError:
        listener.close()
        raise
    return listener
