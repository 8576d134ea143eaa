"""What kube-proxy does: connections to a Service reach a ready Pod behind it; and its Endpoints, which name these Pods.

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

from app.devtools.clusters.node.addresses import shown
from app.devtools.sandbox.standins.reconciling import Watched, reconciling
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import SERVICES, Resource
from app.kube.store import Key
from app.wire import JSON

_log = structlog.get_logger(__name__)
_LOOPBACK = "127.0.0.1"
_CHUNK = 65536
_ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")

Route = tuple[str, str, int]
"""Namespace, name and port of a Service."""


@dataclass(frozen=True, slots=True)
class _Backend:
    """A ready Pod: its namespace and labels, and where its ports are."""

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


class Services:
    """Those of one cluster. `found` is called with each route and where it listens.

    `controller` keeps them, once it runs: it listens, and writes Endpoints, from which clients and `berth doctor` learn
    which Pods are ready.
    """

    def __init__(self, client: KubeClient, watched: Watched, found: Callable[[Route, tuple[str, int]], None]) -> None:
        self._client = client
        self._services = watched.store(SERVICES)
        self._found = found
        self._ready: dict[str, _Backend] = {}
        self._servers: dict[Route, list[asyncio.Server]] = {}
        self._forwards: set[asyncio.Task[None]] = set()
        self.controller = reconciling("services", self._reconcile, self._services, workers=1)

    def ready(self, pod: JSON, address: str) -> None:
        """The Pod takes connections at `address` from now on."""
        metadata, (container, *_) = pod["metadata"], pod["spec"]["containers"]
        if metadata["uid"] not in self._ready:
            ports = {one["name"]: one["containerPort"] for one in container.get("ports") or []}
            backend = _Backend(metadata["namespace"], metadata.get("labels") or {}, address, ports)
            self._ready[metadata["uid"]] = backend
            self._changed(backend)

    def unready(self, uid: str) -> None:
        """The Pod takes none any more."""
        if backend := self._ready.pop(uid, None):
            self._changed(backend)

    def _changed(self, backend: _Backend) -> None:
        for key in self._services.keys():  # noqa: SIM118  not a dict
            if key[0] == backend.namespace:
                self.controller.enqueue(key)

    def _behind(self, service: JSON) -> list[_Backend]:
        return [one for one in self._ready.values() if one.is_behind(service)]

    async def _reconcile(self, key: Key) -> None:
        service = self._services.get(*key)
        if service is not None and not service["spec"].get("selector"):
            service = None  # what is behind it is not for us to say
        spec: JSON = service["spec"] if service is not None else {}
        wanted = {(*key, int(port["port"])): port for port in spec.get("ports") or []}
        for route in [one for one in self._servers if one[:2] == key and one not in wanted]:
            for server in self._servers.pop(route):
                server.close()
        for route, port in wanted.items():
            if route not in self._servers:
                self._servers[route] = await self._listen(route, port, str(spec.get("clusterIP") or ""))
        if service is not None:
            await self._write_endpoints(service)

    async def _write_endpoints(self, service: JSON) -> None:
        """Make the Service's Endpoints say who is ready. A Service that is gone meanwhile takes them along."""
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        backends = sorted(self._behind(service), key=lambda one: one.address)
        addresses = [{"ip": shown(one.address)} for one in backends]
        ports = [
            {
                **({"name": port["name"]} if port.get("name") else {}),
                "port": backends[0].port(port.get("targetPort") or port["port"]),
                "protocol": "TCP",
            }
            for port in service["spec"].get("ports") or []
            if backends
        ]
        metadata = {"name": name, "labels": dict(service["metadata"].get("labels") or {})}
        subsets = [{"addresses": addresses, "ports": ports}] if addresses else []
        body = _ENDPOINTS.body(metadata, subsets=subsets)
        try:
            await self._client.apply(_ENDPOINTS, name, body, namespace=namespace, field_manager="berth-sandbox")
        except ApiError as error:
            if error.status != 403:  # the namespace is ending
                raise

    async def close(self) -> None:
        """Listen no more, and cut what is being forwarded."""
        for servers in self._servers.values():
            for server in servers:
                server.close()
        for forward in self._forwards:
            forward.cancel()
        await asyncio.gather(*self._forwards, return_exceptions=True)

    async def _listen(self, route: Route, port: JSON, cluster_ip: str) -> list[asyncio.Server]:
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
            if target is not None:  # else it is closed, as for a Service without endpoints
                await forward(target, reader, writer)

    def _target(self, route: Route) -> tuple[str, int] | None:
        service = self._services.get(*route[:2])
        if service is None:
            return None
        ports = service["spec"].get("ports") or []
        wanted = next((one.get("targetPort") or one["port"] for one in ports if one["port"] == route[2]), 0)
        chosen = self._behind(service)
        if not chosen:
            return None
        backend = random.choice(chosen)  # noqa: S311  it spreads connections
        return backend.address, backend.port(wanted)


async def forward(target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Lead a connection to this address, until both sides have ended; at once where nothing listens there."""
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


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()
