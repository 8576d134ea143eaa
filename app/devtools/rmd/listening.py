"""HTTP and TLS on a loopback port, in the running event loop; uvicorn serves, as in the sandbox."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
_NAME = "rmd-stand-in"
"""The daemon sends no such header: who looks at it sees what answers."""
_GRACE = 1
"""Seconds that requests get to end after their connections are cut."""
_TURNS = 10
"""Turns of the loop in which aborted connections end."""


class _Protocol(HttpToolsProtocol):
    """Tells the application which connection a request came over, and what certificate its client has."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base class has it
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self.app_state = {**self.app_state, "peer_certificate": certificate, "transport": transport}


@asynccontextmanager
async def listening(app: App, address: str, port: int, context: ssl.SSLContext | None) -> AsyncIterator[int]:
    """Serve the application at this IPv4 address; yields the port. Port 0 takes a free one; OSError if it is taken.

    `scope["state"]` has the connection as `transport`, and as `peer_certificate` the client's certificate (DER) or
    None. At the end all connections are cut, also those with a request under way.
    """
    listener = socket.create_server((address, port))
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=[("Server", _NAME)],
        timeout_graceful_shutdown=_GRACE,
        ssl_context_factory=(lambda _config, _default: context) if context is not None else None,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    # Not `serve`: it installs signal handlers, and those are the caller's.
    loop = asyncio.create_task(server.main_loop(), name="rmd-stand-in")
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await loop
        # A listener that closes in the turn in which it accepts drops the new connection without closing it.
        asyncio.get_running_loop().remove_reader(listener)
        await _cut(server)
        await server.shutdown(sockets=[listener])
        await _cut(server)


async def _cut(server: uvicorn.Server) -> None:
    for connection in list(server.server_state.connections):
        transport = getattr(connection, "transport", None)
        if transport is not None:
            transport.abort()
    for _ in range(_TURNS):
        await asyncio.sleep(0)
