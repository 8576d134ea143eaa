"""The device plugin of cache ways: kept registered with the kubelet that runs, with the ways that the daemon tells.

Source: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import structlog

from app.errors import Transient
from app.kube.running import stand
from app.rmd.agent import metrics
from app.rmd.agent.kubelet import SOCKET_OPTIONS
from app.rmd.daemon.certificates import NoCertificate
from app.rmd.daemon.client import Daemon
from app.rmd.daemon.wire import GUARANTEED, MOST_WAYS, Cache, Malformed, Reservation
from app.rmd.model import L3_CACHE_WAYS
from app.rmd.proto import plugin_grpc, plugin_pb
from app.text import one_line

log = structlog.get_logger(__name__)
FOLDER, SOCKET, KUBELET = "device-plugins", "berth-rmd.sock", "kubelet.sock"
_VERSION = "v1beta1"
_SILENT = 60.0
"""Seconds without an answer of the daemon after which no way is given any more. A restart takes less."""
_LOOK = 1.0
"""Seconds between two looks whether kubelet has restarted: it then removes all sockets in the folder."""
_CALL = 10.0
_END = 1.0
_SHOWN = 200
_HEALTHY, _UNHEALTHY = "Healthy", "Unhealthy"


class Announcing:
    """`daemon` finds the daemon of the node, or raises Transient or NoCertificate.

    `problem` says what keeps it from kubelet, "" where nothing does. The controller reports a silent daemon.
    """

    def __init__(
        self, folder: Path, daemon: Callable[[], Awaitable[Daemon]], *, interval: float = 15.0, pause: float = _LOOK
    ) -> None:
        self._folder, self._daemon, self._interval, self._pause = folder / FOLDER, daemon, interval, pause
        self._plugin = _CacheWays()
        self._unasked, self._unregistered = "not asked yet", "not registered yet"

    @property
    def problem(self) -> str:
        return f"cache ways: {self._unregistered}" if self._unregistered else ""

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            stand(tasks, "cache-ways", self._follow_daemon)
            stand(tasks, "device-plugin", self._follow_kubelet)

    async def _follow_daemon(self) -> None:
        loop = asyncio.get_running_loop()
        answered = loop.time()
        while True:
            try:
                pools = await self._ask()
                answered, self._unasked = loop.time(), ""
            except (Transient, NoCertificate, Malformed) as error:
                if not self._unasked:
                    log.warning("the daemon does not tell its cache ways", error=str(error))
                pools, self._unasked = self._plugin.pools, str(error)
            healthy = not self._unasked or loop.time() - answered < _SILENT
            await self._plugin.set(pools, healthy=healthy)
            metrics.announced({pool.cache: pool.ways for pool in pools}, healthy=healthy)
            await asyncio.sleep(self._interval if not self._unasked else self._pause)

    async def _ask(self) -> tuple[Pool, ...]:
        """Asked until nothing was reserved meanwhile: free ways and reservations have to be of one moment."""
        daemon = await self._daemon()
        reservations = await daemon.reservations()
        while True:
            caches = await daemon.caches()
            again = await daemon.reservations()
            if again == reservations:
                return pools_of(caches, again)
            reservations = again

    async def _follow_kubelet(self) -> None:
        while True:
            kubelet = self._identity()
            if kubelet is None:
                self._unregistered = f"no kubelet listens at {self._folder / KUBELET}"
            else:
                try:
                    async with self._served():
                        await self._registered_with(kubelet)
                except (OSError, RuntimeError) as error:  # gRPC raises the latter where it cannot bind
                    self._unregistered = f"no socket {self._folder / SOCKET}: {one_line(str(error), _SHOWN)}"
            await asyncio.sleep(self._pause)

    async def _registered_with(self, kubelet: tuple[int, int]) -> None:
        """Returns when this kubelet is gone, has removed our socket, or refuses."""
        try:
            async with grpc.aio.insecure_channel(f"unix:{self._folder / KUBELET}", options=SOCKET_OPTIONS) as channel:
                said = plugin_pb.RegisterRequest(version=_VERSION, endpoint=SOCKET, resource_name=L3_CACHE_WAYS)
                await plugin_grpc.RegistrationStub(channel).Register(said, timeout=_CALL)
        except grpc.aio.AioRpcError as error:
            self._unregistered = f"kubelet: {one_line(error.details() or error.code().name, _SHOWN)}"
            return
        log.info("registered with kubelet", resource=L3_CACHE_WAYS)
        self._unregistered = ""
        while self._identity() == kubelet and (self._folder / SOCKET).exists():  # noqa: ASYNC110
            await asyncio.sleep(self._pause)
        self._unregistered = "kubelet has restarted"

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = (self._folder / KUBELET).stat()
        except OSError:
            return None
        return found.st_ino, found.st_ctime_ns

    @contextlib.asynccontextmanager
    async def _served(self) -> AsyncIterator[None]:
        """The plugin, on a new socket."""
        path = self._folder / SOCKET
        path.unlink(missing_ok=True)
        server = grpc.aio.server()
        plugin_grpc.add_DevicePluginServicer_to_server(self._plugin, server)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        try:
            yield
        finally:
            await self._plugin.end()
            await server.stop(_END)


class _CacheWays(plugin_grpc.DevicePluginServicer):
    """`set` what there is; kubelet gets each list that differs from the one before, until the lists `end`."""

    def __init__(self) -> None:
        self._pools: tuple[Pool, ...] = ()
        self._healthy, self._version, self._term = False, 0, 0
        self._changed = asyncio.Condition()

    @property
    def pools(self) -> tuple[Pool, ...]:
        return self._pools

    async def set(self, pools: tuple[Pool, ...], *, healthy: bool) -> None:
        async with self._changed:
            if (pools, healthy) != (self._pools, self._healthy):
                self._pools, self._healthy = pools, healthy
                self._version += 1
                self._changed.notify_all()

    async def end(self) -> None:
        """End the lists of those that listen now."""
        async with self._changed:
            self._term += 1
            self._changed.notify_all()

    async def GetDevicePluginOptions(  # noqa: N802 - the name of the method
        self, _request: plugin_pb.Empty, _context: grpc.aio.ServicerContext[Any, Any]
    ) -> plugin_pb.DevicePluginOptions:
        return plugin_pb.DevicePluginOptions()

    async def ListAndWatch(  # noqa: N802
        self, _request: plugin_pb.Empty, _context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[plugin_pb.ListAndWatchResponse]:
        term = self._term
        while term == self._term:
            shown = self._version
            yield self._listed()
            async with self._changed:
                while shown == self._version and term == self._term:
                    await self._changed.wait()

    async def Allocate(  # noqa: N802
        self, request: plugin_pb.AllocateRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> plugin_pb.AllocateResponse:
        """The daemon chooses the ways later, for the RmdWorkload of the container. The container gets the ids."""
        known = {name for pool in self._pools for name in pool.ids}
        answers = []
        for container in request.container_requests:
            unknown = sorted(set(container.devices_ids) - known)
            if unknown:
                text = f"there is no cache way {', '.join(unknown)}: want one of {len(known)} that were listed"
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
            envs = {L3_CACHE_WAYS: ",".join(sorted(container.devices_ids))}
            answers.append(plugin_pb.ContainerAllocateResponse(envs=envs))
        return plugin_pb.AllocateResponse(container_responses=answers)

    def _listed(self) -> plugin_pb.ListAndWatchResponse:
        health = _HEALTHY if self._healthy else _UNHEALTHY
        devices = [
            plugin_pb.Device(ID=name, health=health, topology=_topology(pool))
            for pool in self._pools
            for name in pool.ids
        ]
        return plugin_pb.ListAndWatchResponse(devices=devices)


def _topology(pool: Pool) -> plugin_pb.TopologyInfo | None:
    return None if pool.numa is None else plugin_pb.TopologyInfo(nodes=[plugin_pb.NUMANode(ID=pool.numa)])


class Pool(NamedTuple):
    """The ways of one level 3 cache; `numa` is its NUMA node, None where it is not known."""

    cache: str
    ways: int
    numa: int | None

    @property
    def ids(self) -> tuple[str, ...]:
        """Devices are counted, and no id stands for a certain way: a daemon chooses the ways by itself."""
        return tuple(f"{self.cache}-{number}" for number in range(self.ways))


def pools_of(caches: Iterable[Cache], reservations: Iterable[Reservation]) -> tuple[Pool, ...]:
    """A daemon tells the free ways of a pool. Those of its reservations belong to the pool as well.

    Raises Malformed where that is more than a cache can have: each way becomes a device.
    """
    guaranteed = [
        reservation
        for reservation in reservations
        if reservation.settings.cache and reservation.settings.cache[0] == reservation.settings.cache[1]
    ]
    found = []
    for cache in caches:
        free = cache.free.get(GUARANTEED)
        if free is not None:
            used = [
                reservation.settings.cache[0]
                for reservation in guaranteed
                if reservation.settings.cache and _is_on(reservation, cache)
            ]
            ways = len(free) + sum(used)
            if ways > MOST_WAYS:
                raise Malformed(f"cache {cache.id}: {ways} guaranteed ways: want at most {MOST_WAYS}")
            found.append(Pool(cache.id, ways, cache.numa))
    return tuple(found)


def _is_on(reservation: Reservation, cache: Cache) -> bool:
    return bool(cache.cores & (reservation.cores or frozenset()))
