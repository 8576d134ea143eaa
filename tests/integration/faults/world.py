"""A whole system in one process: infra cluster, tenant clusters, and roles that can be killed, cut off and restarted.

Every life of a role has proxies of its own between it and its servers, so that its death is abrupt: its connections
are reset before it is told anything, and what it had under way stays half done.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.storage import Snapshot
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES, PODS, Resource
from app.kube.transport import connect
from app.placement.model import HOST_LABEL
from app.tenancy.agent.settings import AgentOptions
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.caches import Sources
from app.tenancy.gateway.server import Gateway
from app.tenancy.gateway.settings import Limits
from app.tenancy.model import GATEWAY_NAME
from app.workloads.model import SYSTEM_NAMESPACE, TENANTS, UVS_RESOURCES, WORKLOAD_RULES
from tests.integration.faults.proxy import Proxy
from tests.support.tenancy import Pki, Seen, TlsFiles, agent_kit, agent_settings, definitions
from tests.support.tenants import tenant, tenants_kit
from tests.support.waiting import PATIENCE, eventually
from tests.support.workloads import companions_kit

JSON = dict[str, Any]
HOSTS = ("host-a", "host-b")


@dataclass
class Life:
    """One life of a role; `part` says what it waits for. `proxies` lie between it and its servers."""

    role: str
    name: str
    part: Any
    task: asyncio.Task[None]
    proxies: list[Proxy]
    client: KubeClient

    @property
    def waiting(self) -> list[str]:
        return [line for part in self.part for line in part.waiting()]


@dataclass(frozen=True)
class Tuning:
    """`resync` is the time between two sweeps of controller and agents; the default leaves all to events."""

    resync: float = 600.0
    window: int = 10_000
    tenants: tuple[str, ...] = ("tenant1",)


class Side:
    """A cluster and a hand in it that no fault touches, but for the restart of the API server."""

    def __init__(self, cluster: Cluster, client: KubeClient) -> None:
        self.cluster = cluster
        self.client = client
        self.kubeconfig = cluster.kubeconfig()

    def all(self, resource: Resource, namespace: str | None = None) -> list[JSON]:
        """What the API server holds; not to be changed."""
        objects = self.cluster.storage.list((resource.group, resource.plural))
        return [obj for obj in objects if namespace is None or obj["metadata"].get("namespace") == namespace]

    async def restart(self, pause: float) -> None:
        """The API server goes away and comes back on the same port with the same objects."""
        await self.cluster.stop()
        await asyncio.sleep(pause)
        self.cluster.storage.reopen()
        await self.cluster.start()

    async def restore(self, snapshot: Snapshot, *, ahead: bool) -> None:
        """The API server comes back with what it held at an earlier time.

        Its version is that of the snapshot then; `ahead`: writes have brought it past the one that clients hold.
        """
        await self.cluster.stop()
        storage = self.cluster.storage
        held = storage.version
        storage.restore(snapshot)
        while ahead and storage.version <= held:
            place = "default", f"since-{snapshot.version}"
            body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"namespace": place[0], "name": place[1]}}
            if (known := storage.get(("", "configmaps"), *place)) is None:
                storage.create(("", "configmaps"), body)
            else:
                storage.update(("", "configmaps"), {**known, "metadata": dict(known["metadata"])})
        storage.reopen()
        await self.cluster.start()


@dataclass
class World:
    """`lives` are the roles that are up, by role ("controller", "gateway", "agent-<tenant>")."""

    folder: Path
    infra: Side
    tenants: dict[str, Side]
    random: random.Random
    tls: TlsFiles
    tuning: Tuning
    lives: dict[str, list[Life]] = field(default_factory=dict)
    wrap: Callable[[KubeClient], Any] = lambda client: client
    _dying: set[asyncio.Task[None]] = field(default_factory=set)
    _proxies: list[Proxy] = field(default_factory=list)
    _files: int = 0
    _admin: tuple[int, grpc.aio.Channel] | None = None

    @property
    def roles(self) -> list[str]:
        return ["controller", "gateway", *(f"agent-{name}" for name in self.tenants)]

    def gateway_port(self) -> int:
        """That of one of the gateways that are up, 0 where none is."""
        lives = self.lives.get("gateway", [])
        return self.random.choice(lives).part[0].port if lives else 0

    async def start(self, role: str) -> Life:
        """One more of this role."""
        made: Life = await getattr(self, f"_start_{role.partition('-')[0]}")(role)
        self.lives.setdefault(role, []).append(made)
        self._proxies += made.proxies
        return made

    def kill(self, life: Life) -> None:
        """The process is gone, at once."""
        self.lives[life.role].remove(life)
        for proxy in life.proxies:
            proxy.die()
        if life.role == "gateway":
            for lives in self.lives.values():
                for other in lives:
                    if other.role.startswith("agent"):
                        other.proxies[1].cut()
        self._dying.add(asyncio.create_task(self._bury(life)))

    async def _bury(self, life: Life) -> None:
        assert not life.task.done(), f"{life.name} has ended by itself"
        await life.client.close()
        life.task.cancel()
        await asyncio.wait({life.task}, timeout=PATIENCE)
        assert life.task.done(), f"{life.name} does not end"

    async def ready(self, *, seconds: float = PATIENCE) -> None:
        """Every role is up and waits for nothing."""
        await eventually(
            lambda: not any(life.waiting for lives in self.lives.values() for life in lives), seconds=seconds
        )

    async def close(self) -> None:
        for lives in list(self.lives.values()):
            for life in list(lives):
                self.kill(life)
        if self._admin is not None:
            await self._admin[1].close()
        await asyncio.gather(*self._dying)
        await asyncio.gather(*(proxy.close() for proxy in self._proxies))

    def _kubeconfig(self, side: Side, proxy: Proxy) -> str:
        self._files += 1
        path = self.folder / f"{self._files}.kubeconfig"
        path.write_text(side.kubeconfig.replace(side.cluster.url, f"https://127.0.0.1:{proxy.port}"))
        return str(path)

    async def _connected(self, side: Side) -> tuple[Proxy, KubeClient]:
        proxy = await Proxy(lambda: int(side.cluster.url.rpartition(":")[2])).start()
        return proxy, await connect(kubeconfig=self._kubeconfig(side, proxy), deadline=5)

    async def _start_controller(self, role: str) -> Life:
        proxy, client = await self._connected(self.infra)
        workloads = companions_kit(
            client, workers=4, resync=self.tuning.resync, status_interval=0.05, restart_pause=0.05, status_workers=4
        )
        tenants = tenants_kit(client, resync=self.tuning.resync)

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(workloads.run())
                group.create_task(tenants.run())

        return Life(role, f"{role}-{self._files}", (workloads, tenants), asyncio.create_task(run()), [proxy], client)

    async def _start_gateway(self, role: str) -> Life:
        proxy, client = await self._connected(self.infra)
        settings = self.tls.settings(drain_seconds=0.1)
        backend = Backend(Sources(client), settings=settings, limits=Limits(tick=0.2), observer=Seen())
        gateway = Gateway(backend, settings=settings)
        task = asyncio.create_task(gateway.run(asyncio.Event()))
        await asyncio.wait_for(gateway.started.wait(), PATIENCE)
        return Life(role, f"{role}-{self._files}", (gateway,), task, [proxy], client)

    async def _start_agent(self, role: str) -> Life:
        tenant = role.partition("-")[2]
        proxy, client = await self._connected(self.tenants[tenant])
        door = await Proxy(self.gateway_port).start()
        folder = self.folder / tenant
        options = AgentOptions(
            agent_settings(f"127.0.0.1:{door.port}", folder, resync_seconds=self.tuning.resync),
            backoff_base=0.03,
            backoff_cap=0.2,
            linger=0.01,
            certificate_poll=5.0,
            refusal_pause=0.1,
        )
        agent = agent_kit(self.wrap(client), options=options)
        return Life(role, f"{role}-{self._files}", (agent,), asyncio.create_task(agent.run()), [proxy, door], client)

    async def admin_channel(self) -> grpc.aio.Channel | None:
        """To one of the gateways that are up, as the cloud admin."""
        port = self.gateway_port()
        if not port:
            return None
        if self._admin is None or self._admin[0] != port:
            if self._admin is not None:
                await self._admin[1].close()
            self._admin = port, self.channel(port, "admin")
        return self._admin[1]

    def channel(self, port: int, identity: str) -> grpc.aio.Channel:
        """As the admin or a tenant: who has a folder with the three files."""
        files = ((self.folder / identity / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt"))
        credentials = grpc.ssl_channel_credentials(*files)
        options = [("grpc.ssl_target_name_override", GATEWAY_NAME), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=options)


async def persist(request: Callable[[], Awaitable[Any]], *, but: tuple[int, ...] = (404, 409)) -> Any:
    """Repeat a request of the user until the API server answers; None where it says one of `but`."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await request()
            except ApiError as error:
                if error.status in but:
                    return None
                if error.status not in (0, 429, 503):
                    raise
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def world(folder: Path, pki: Pki, tuning: Tuning, seed: int) -> AsyncIterator[World]:
    """Clusters with everything installed, and one of each role at work."""
    async with contextlib.AsyncExitStack() as stack:
        sides = {}
        for name in ("infra", *tuning.tenants):
            cluster = await stack.enter_async_context(Cluster(name, window=tuning.window, bookmark_interval=0.3))
            (folder / f"{name}.kubeconfig").write_text(cluster.kubeconfig())
            client = await stack.enter_async_context(
                await connect(kubeconfig=str(folder / f"{name}.kubeconfig"), deadline=PATIENCE)
            )
            sides[name] = Side(cluster, client)
            await client.create(NAMESPACES, {"metadata": {"name": SYSTEM_NAMESPACE}})
        infra = sides.pop("infra")
        for definition in definitions():
            names = definition["spec"]["names"]["plural"]
            theirs = names in {resource.plural for resource in (WORKLOAD_RULES, *UVS_RESOURCES)}
            for side in sides.values() if theirs else (infra,):
                await side.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        for host in HOSTS:
            await infra.client.create(NODES, {"metadata": {"name": f"dpu-{host}", "labels": {HOST_LABEL: host}}})
        for name, issued in (("admin", pki.admin()), *((name, pki.tenant(name)) for name in sides)):
            (folder / name).mkdir()
            (folder / name / "ca.crt").write_bytes(pki.ca)
            (folder / name / "tls.crt").write_bytes(issued.certificate_pem)
            (folder / name / "tls.key").write_bytes(issued.key_pem)
        for name in sides:
            # Its namespace is the controller's to make; Workloads wait for it.
            await infra.client.create(TENANTS, tenant(name))
        made = World(folder, infra, sides, random.Random(f"world-{seed}"), pki.files, tuning)
        try:
            for role in made.roles:
                await made.start(role)
            confirming = [asyncio.create_task(kubelet(side)) for side in (infra, *sides.values())]
            stack.callback(lambda: [task.cancel() for task in confirming])
            await made.ready()
            yield made
        finally:
            await made.close()


async def kubelet(side: Side) -> None:
    """Confirms the end of Pods that are on a node and being deleted, a moment later."""
    while True:
        for pod in side.all(PODS):
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp"):
                with contextlib.suppress(ApiError):
                    await side.client.delete(
                        PODS,
                        metadata["name"],
                        namespace=metadata["namespace"],
                        uid=metadata["uid"],
                        grace_period_seconds=0,
                    )
        await asyncio.sleep(0.05)
