"""What kubelet has given to the containers of its node, asked over its socket, and the device plugin of cache ways.

The plugin is kept registered with the kubelet that runs, with the ways that the daemon tells. Sources: KEP-606, and
https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import structlog

from app.errors import Transient
from app.kube.running import stand
from app.kube.store import Key
from app.rmd.agent import metrics
from app.rmd.cores import MOST_CORES
from app.rmd.daemon.client import Daemon, NoCertificate
from app.rmd.daemon.wire import GUARANTEED, MOST_WAYS, Cache, Malformed, Reservation
from app.rmd.model import L3_CACHE_WAYS
from app.rmd.proto import plugin_grpc, plugin_pb, resources_grpc, resources_pb
from app.text import one_line

log = structlog.get_logger(__name__)
_RESOURCES = Path("pod-resources", "kubelet.sock")
_MOST_BYTES = 16 * 2**20
"""Of an answer: a node has some hundred Pods, of some hundred bytes each."""
_SHOWN = 200
SOCKET_OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
"""A connection of its own: one that is shared remembers that the kubelet before did not answer."""
Cores = Mapping[Key, Mapping[str, frozenset[int] | None]]
"""The exclusive cores by Pod (namespace and name) and container; those of containers without any are empty.

None where kubelet lists cores that no machine has: what it says of other containers holds.
"""
FOLDER, SOCKET, KUBELET = "device-plugins", "berth-rmd.sock", "kubelet.sock"
_VERSION = "v1beta1"
_SILENT = 60.0
"""Seconds without an answer of the daemon after which no way is given any more. A restart takes less."""
_LOOK = 1.0
"""Seconds between two looks whether kubelet has restarted: it then removes all sockets in the folder."""
_CALL = 10.0
_END = 1.0
_HEALTHY, _UNHEALTHY = "Healthy", "Unhealthy"


class NoAnswer(Transient):
    """kubelet does not answer, or says what cannot be; the text says why."""

    expected = True


class PodResources:
    """`problem` is why the last list failed, "" where it did not. All that wait at a time share one list."""

    def __init__(self, folder: Path, *, timeout: float = 10.0) -> None:
        self._path, self._timeout = folder / _RESOURCES, timeout
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Cores] | None = None
        self.problem = ""

    async def cores(self) -> Cores:
        """What kubelet says after this call. Raises NoAnswer."""
        if self._next is None:
            self._next = asyncio.create_task(self._listed())
        return await asyncio.shield(self._next)

    async def _listed(self) -> Cores:
        async with self._turn:
            # Who asks from now on may know of a Pod that this list does not have.
            self._next = None
            try:
                cores = read_cores(await self._list())
            except NoAnswer as error:
                self.problem = str(error)
                metrics.LISTS.labels("failed").inc()
                raise
            self.problem = ""
            metrics.LISTS.labels("answered").inc()
            return cores

    async def _list(self) -> resources_pb.ListPodResourcesResponse:
        """On a connection of its own: the socket is another one after a restart of kubelet."""
        options = (("grpc.max_receive_message_length", _MOST_BYTES), *SOCKET_OPTIONS)
        try:
            async with grpc.aio.insecure_channel(f"unix:{self._path}", options=options) as channel:
                stub = resources_grpc.PodResourcesListerStub(channel)
                answer: resources_pb.ListPodResourcesResponse | None = await stub.List(
                    resources_pb.ListPodResourcesRequest(), timeout=self._timeout
                )
        except grpc.aio.AioRpcError as error:
            details = one_line(error.details() or error.code().name, _SHOWN)
            raise NoAnswer(f"kubelet at {self._path}: {error.code().name}: {details}") from error
        if answer is None:
            # grpc.aio says so of bytes that are no message.
            raise NoAnswer(f"kubelet at {self._path}: the answer is no list of Pods")
        return answer


def read_cores(answer: resources_pb.ListPodResourcesResponse) -> Cores:
    """Pods that are listed twice are left out: one of them has ended, and it is not said which."""
    times = Counter((pod.namespace, pod.name) for pod in answer.pod_resources)
    return {
        (pod.namespace, pod.name): {container.name: _checked(container) for container in pod.containers}
        for pod in answer.pod_resources
        if times[pod.namespace, pod.name] == 1
    }


def _checked(container: resources_pb.ContainerResources) -> frozenset[int] | None:
    cores = frozenset(container.cpu_ids)
    return cores if all(0 <= core < MOST_CORES for core in cores) else None


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
                request = plugin_pb.RegisterRequest(version=_VERSION, endpoint=SOCKET, resource_name=L3_CACHE_WAYS)
                await plugin_grpc.RegistrationStub(channel).Register(request, timeout=_CALL)
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
            status = (self._folder / KUBELET).stat()
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns

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
        ids = {name for pool in self._pools for name in pool.ids}
        answers = []
        for container in request.container_requests:
            unknown = sorted(set(container.devices_ids) - ids)
            if unknown:
                text = f"there is no cache way {', '.join(unknown)}: want one of {len(ids)} that were listed"
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
    pools = []
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
            pools.append(Pool(cache.id, ways, cache.numa))
    return tuple(pools)


def _is_on(reservation: Reservation, cache: Cache) -> bool:
    return bool(cache.cores & (reservation.cores or frozenset()))
