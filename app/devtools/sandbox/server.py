"""A cluster of the sandbox on a loopback port: one API server, over TLS, in the running event loop.

Owns sockets, certificates and kubeconfigs. `apiserver` answers the requests. This module runs no controllers.
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Self

import yaml

from app.devtools.listening import Listening, Protocol
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


class _Protocol(Protocol):
    """It sends an answer in one piece."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base class has it
        super().connection_made(GatheringTransport(transport, self.loop))


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
        self._listening: Listening | None = None

    @property
    def ca_pem(self) -> str:
        return self._authority.pem.decode()

    @property
    def url(self) -> str:
        """Where the cluster listens; known from `start` on."""
        return f"https://{_HOST}:{self._port}"

    async def start(self) -> None:
        """Listen and serve; returns when requests are answered. Raises OSError where the port is taken."""
        context = server_context(self._authority.serving(_NAMES), self._authority.pem)
        self._listening = await Listening.start(
            ApiServer(self.state),
            _HOST,
            self._port,
            context,
            name=f"{self.name}-apiserver",
            protocol=_Protocol,
            timeout_keep_alive=_KEEP_ALIVE,
        )
        self._port = self._listening.port

    async def stop(self) -> None:
        """End all watches, answer what is under way, and close; a cluster that is not started is left alone."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        self.storage.close()
        await listening.stop()
        await self.state.webhooks.close()

    async def cut(self) -> None:
        """Abort all connections, watches and requests under way; new ones are accepted."""
        if self._listening is not None:
            await self._listening.cut()

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


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
