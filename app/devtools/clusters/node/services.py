"""What kube-proxy does: connections to a Service reach a Pod behind it that is ready.

Only Services with Pods of this node are routed. A Service has an address of its own on loopback: its cluster IP where
that is one, else any port of 127.0.0.1; a node port is reached at 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from app.kube.store import Key
from app.wire import JSON

_log = structlog.get_logger(__name__)
_LOOPBACK = "127.0.0.1"
_CHUNK = 65536

Route = tuple[str, str, int]
"""Namespace, name and port of a Service."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A ready Pod: whom it belongs to, and where its ports are."""

    namespace: str
    labels: Mapping[str, str]
    address: str
    ports: Mapping[str | int, int]

    def port(self, wanted: str | int) -> int:
        """The number of a port that a Service names, 0 where the Pod has none of that name."""
        return self.ports.get(wanted, int(wanted) if str(wanted).isdecimal() else 0)

    def is_behind(self, service: JSON) -> bool:
        """Whether the Service selects this Pod."""
        selector = service["spec"].get("selector") or {}
        same = service["metadata"]["namespace"] == self.namespace
        return bool(selector) and same and selector.items() <= self.labels.items()


class ServiceRouter:
    """`found` is told where each route listens, `backends` lists the Pods that are ready now."""

    def __init__(self, backends: Callable[[], list[Backend]], found: Callable[[Route, tuple[str, int]], None]) -> None:
        self._backends = backends
        self._found = found
        self._servers: dict[Route, list[asyncio.Server]] = {}
        self._services: dict[Key, JSON] = {}
        self._forwards: set[asyncio.Task[None]] = set()

    async def follow(self, key: Key, service: JSON | None) -> None:
        """Take note of a Service as it is now; None: it is gone."""
        if service is None:
            self._services.pop(key, None)
        else:
            self._services[key] = service
        wanted = {(*key, int(port["port"])): port for port in ((service or {}).get("spec") or {}).get("ports") or []}
        if not ((service or {}).get("spec") or {}).get("selector"):
            wanted = {}
        for route in [one for one in self._servers if one[:2] == key and one not in wanted]:
            for server in self._servers.pop(route):
                server.close()
        for route, port in wanted.items():
            if route not in self._servers:
                self._servers[route] = await self._listen(route, port)

    async def close(self) -> None:
        """Listen no more, and cut what is being forwarded."""
        for servers in self._servers.values():
            for server in servers:
                server.close()
        for forward in self._forwards:
            forward.cancel()
        await asyncio.gather(*self._forwards, return_exceptions=True)

    async def _listen(self, route: Route, port: JSON) -> list[asyncio.Server]:
        cluster_ip = str(self._services[route[:2]]["spec"].get("clusterIP") or "")
        own = (cluster_ip, route[2]) if cluster_ip.startswith("127.") else (_LOOPBACK, 0)
        addresses = [own, *([(_LOOPBACK, int(port["nodePort"]))] if port.get("nodePort") else [])]
        servers: list[asyncio.Server] = []
        for host, number in addresses:
            try:
                server = await asyncio.start_server(partial(self._begin, route), host, number)
            except OSError as error:
                _log.warning("cannot listen for a Service", service=route[1], host=host, port=number, error=str(error))
                continue
            if not servers:
                self._found(route, server.sockets[0].getsockname()[:2])
            servers.append(server)
        return servers

    def _begin(self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        forward = asyncio.create_task(self._forward(route, reader, writer))
        self._forwards.add(forward)
        forward.add_done_callback(self._forwards.discard)

    async def _forward(self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            target = self._target(route)
            if target is None:
                return  # closes the connection, as for a Service without endpoints
            try:
                there, out = await asyncio.open_connection(*target)
            except OSError:
                return
            with contextlib.closing(out):
                pumps = {asyncio.create_task(_pump(reader, out)), asyncio.create_task(_pump(there, writer))}
                try:
                    await asyncio.wait(pumps)
                finally:
                    for pump in pumps:
                        pump.cancel()
                    await asyncio.gather(*pumps, return_exceptions=True)

    def _target(self, route: Route) -> tuple[str, int] | None:
        service = self._services.get(route[:2])
        if service is None:
            return None
        ports = service["spec"].get("ports") or []
        wanted = next((one.get("targetPort") or one["port"] for one in ports if one["port"] == route[2]), 0)
        chosen = [one for one in self._backends() if one.is_behind(service)]
        if not chosen:
            return None
        backend = random.choice(chosen)  # noqa: S311  it spreads connections
        return backend.address, backend.port(wanted)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()
