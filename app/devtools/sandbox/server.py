"""A cluster of the sandbox on a loopback port: one API server, over TLS, in the running event loop.

Owns sockets, certificates and kubeconfigs. `apiserver` answers the requests. This module runs no controllers.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from typing import TYPE_CHECKING, Self

import uvicorn
import yaml
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.devtools.sandbox.access.auth import AUTHENTICATED, User
from app.devtools.sandbox.api.apiserver import ApiServer
from app.devtools.sandbox.bootstrap import new_state
from app.devtools.sandbox.gathering import GatheringTransport
from app.devtools.sandbox.pki import Authority, server_context

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from app.wire import JSON

_HOST = "127.0.0.1"
_NAMES = (_HOST, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_KEEP_ALIVE = 75
_GRACE = 1
"""Seconds that requests get to end at a stop."""
_STOPPED = "stopped"
"""In the state of connections: their server has stopped."""


class _Protocol(HttpToolsProtocol):
    """HTTP over TLS that tells the application who the connection's client is, and sends an answer in one piece."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base class has it
        super().connection_made(GatheringTransport(transport, self.loop))
        if _STOPPED in self.app_state:
            transport.abort()  # its handshake outlasted the server
            return
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self.app_state = {**self.app_state, "peer_certificate": certificate}


class Cluster:
    """One API server. `services` says where a Service of a webhook configuration really listens.

    `window` is how many changes per resource can be watched from, `bookmark_interval` in seconds; `port` 0 takes a free
    one.
    """

    def __init__(
        self,
        name: str = "sandbox",
        *,
        port: int = 0,
        authority: Authority | None = None,
        window: int = 10_000,
        bookmark_interval: float = 60.0,
    ) -> None:
        self.name = name
        self.services: dict[tuple[str, str, int], tuple[str, int]] = {}
        self.state = new_state(name, self.services, window=window, bookmark_interval=bookmark_interval)
        self.storage = self.state.storage
        self._authority = authority or Authority(f"{name}-ca")
        self._port = port
        self._server: uvicorn.Server | None = None
        self._loop: asyncio.Task[None] | None = None
        self._socket: socket.socket | None = None

    @property
    def ca_pem(self) -> str:
        return self._authority.pem.decode()

    @property
    def url(self) -> str:
        """Where the cluster listens; known from `start` on."""
        return f"https://{_HOST}:{self._port}"

    async def start(self) -> None:
        """Listen and serve; returns when requests are answered. Raises OSError where the port is taken."""
        # The protocol is named so that asyncio turns off Nagle's algorithm: else every answer waits for an ACK, 40 ms.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, self._port))
        except OSError:
            listener.close()
            raise
        self._port = listener.getsockname()[1]
        context = server_context(self._authority.serving(_NAMES), self._authority.pem)
        config = uvicorn.Config(
            ApiServer(self.state),
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=_GRACE,
            ssl_context_factory=lambda _config, _default: context,
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[listener])
        self._server, self._socket = server, listener
        # Not `serve`: it installs signal handlers, and those are the caller's.
        self._loop = asyncio.create_task(server.main_loop(), name=f"{self.name}-apiserver")

    async def stop(self) -> None:
        """End all watches, answer what is under way, and close; a cluster that is not started is left alone."""
        server, loop = self._server, self._loop
        if server is None or loop is None:
            return
        self._server = self._loop = None
        self.storage.close()
        server.should_exit = True
        server.lifespan.state[_STOPPED] = True
        await loop
        if self._socket is not None:
            # A listener that closes in the turn in which it accepts drops the new connection without closing it.
            asyncio.get_running_loop().remove_reader(self._socket)
            await asyncio.sleep(0)
        await server.shutdown(sockets=[self._socket] if self._socket else None)
        await _abort_connections(server)
        await self.state.webhooks.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def add_token(self, token: str, user: str, groups: Iterable[str] = ()) -> None:
        """Accept a bearer token as this user."""
        self.state.authenticator.tokens[token] = User(user, groups=(*groups, AUTHENTICATED))

    def kubeconfig(self, user: str = "admin", groups: Iterable[str] = ("system:masters",)) -> str:
        """YAML text with the cluster's CA and a fresh client certificate of the user inside."""
        pair = self._authority.client(user, groups)
        config: JSON = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": self.name,
                    "cluster": {"server": self.url, "certificate-authority-data": _b64(self._authority.pem)},
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {"client-certificate-data": _b64(pair.certificate), "client-key-data": _b64(pair.key)},
                }
            ],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user, "namespace": "default"}}],
            "current-context": self.name,
            "preferences": {},
        }
        return yaml.safe_dump(config, sort_keys=False)


async def _abort_connections(server: uvicorn.Server) -> None:
    """Cut what a graceful stop left: an idle client need not answer TLS's farewell, and would hold its socket open."""
    for connection in list(server.server_state.connections):
        transport = getattr(connection, "transport", None)
        if transport is not None:
            transport.abort()
    for _ in range(10):  # the transports close in the next turns of the loop
        await asyncio.sleep(0)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
