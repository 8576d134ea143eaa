"""Keeps the cache ways of the node announced: registered with the kubelet that runs, as the daemon tells them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc
import grpc.aio
import structlog

from app.errors import Transient
from app.kube.running import stand
from app.rmd.agent import metrics
from app.rmd.agent.kubelet import SOCKET_OPTIONS
from app.rmd.agent.plugin import CacheWays
from app.rmd.agent.ways import Pool, pools_of
from app.rmd.daemon.certificates import NoCertificate
from app.rmd.daemon.client import Daemon
from app.rmd.daemon.wire import Malformed
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


class Announcing:
    """`daemon` finds the daemon of the node, or raises Transient or NoCertificate.

    `problem` says what keeps it from kubelet, "" where nothing does. The controller reports a silent daemon.
    """

    def __init__(
        self, folder: Path, daemon: Callable[[], Awaitable[Daemon]], *, interval: float = 15.0, pause: float = _LOOK
    ) -> None:
        self._folder, self._daemon, self._interval, self._pause = folder / FOLDER, daemon, interval, pause
        self._plugin = CacheWays()
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
            metrics.announced({one.cache: one.ways for one in pools}, healthy=healthy)
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
