"""Stands up the sandbox: an infra and two tenant clusters with nodes, and Berth in each of them.

Berth itself is what runs anywhere else: it is given kubeconfigs and certificates and does not know where it is.
The API servers are our own stand-ins, or real ones where kubeconfigs are given.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.devtools.clusters import definitions
from app.devtools.clusters.kubeconfigs import standing_alone, write_private
from app.devtools.clusters.node.containers import is_berth
from app.devtools.clusters.node.node import BerthNode
from app.devtools.clusters.node.services import Route
from app.devtools.clusters.plans import CLUSTERS, INFRA, ClusterPlan
from app.devtools.clusters.registering import Webhooks
from app.devtools.clusters.workloads import WorkloadApi
from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.standins.standins import StandIns
from app.errors import BerthError, UsageError
from app.kube.client import KubeClient
from app.kube.transport import connect
from app.runtime.manager import first_of


@dataclass(frozen=True, slots=True)
class Running:
    """One cluster that is up: how to reach it, and its webhook's port (0 where it has none)."""

    name: str
    url: str
    kubeconfig: Path
    nodes: tuple[str, ...]
    webhook_port: int = 0
    health_port: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    """The sandbox while it is up; `gateway` is `host:port`, "" where there is none."""

    clusters: tuple[Running, ...]
    gateway: str = ""

    def cluster(self, name: str) -> Running:
        return next(cluster for cluster in self.clusters if cluster.name == name)


class Sandbox:
    """`async with Sandbox(directory).running() as whole:` yields when everything is ready and registered.

    `kubeconfigs` maps cluster names to kubeconfigs of API servers that already run; the rest are stand-ins. Files
    that the sandbox writes: `<cluster>.kubeconfig`, `webhook/`, `gateway/`, `admin/` and `tenants/` (certificates),
    and `gateway.addr`.

    A `bare` one has nothing of Berth in it. What is then installed, by Helm for instance, runs: Pods of Berth's image
    are processes of this machine, and what they print is in `<cluster>/logs`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        kubeconfigs: Mapping[str, Path] | None = None,
        stand_ins: bool = True,
        bare: bool = False,
        log_level: str = "warning",
    ) -> None:
        self._directory = directory
        self._bare = bare
        self._kubeconfigs = dict(kubeconfigs or {})
        self._stand_ins = stand_ins
        self._log_level = log_level
        unknown = sorted(set(self._kubeconfigs) - {plan.name for plan in CLUSTERS})
        if unknown:
            raise UsageError(f"no cluster {unknown[0]!r} in the sandbox: want {', '.join(p.name for p in CLUSTERS)}")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Whole]:
        """The sandbox, for as long as the block runs."""
        stop = asyncio.Event()
        try:
            async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
                started = _Started(stack, tasks, stop, [])
                try:
                    yield await self._start(started)
                finally:
                    await started.end()
        except* BerthError as group:
            raise first_of(group) from None

    async def _start(self, started: _Started) -> Whole:
        if self._bare:
            return Whole(tuple([await self._bare_cluster(plan, started) for plan in CLUSTERS]))
        webhooks = Webhooks(self._directory, log_level=self._log_level)
        found = [await self._cluster(plan, webhooks, started) for plan in CLUSTERS]
        clients = {running.name: client for running, client in found}
        api = WorkloadApi(self._directory, clients=clients, log_level=self._log_level)
        gateway = await api.start(started.run)
        return Whole(tuple(running for running, _ in found), gateway)

    async def _cluster(self, plan: ClusterPlan, webhooks: Webhooks, started: _Started) -> tuple[Running, KubeClient]:
        kubeconfig, _ = await self._api_server(plan, started.stack)
        client = await started.stack.enter_async_context(await connect(kubeconfig=str(kubeconfig)))
        infra = plan.name == INFRA
        await definitions.install(client, definitions.INFRA if infra else definitions.TENANT)
        if self._stand_ins:
            started.run(StandIns(client, plan.nodes))
        ports = await webhooks.start(kubeconfig, infra=infra, tasks=started.tasks, stop=started.stop, cluster=plan.name)
        await webhooks.register(client, port=ports[0], infra=infra)
        return Running(plan.name, client.server, kubeconfig, _names(plan), *ports), client

    async def _bare_cluster(self, plan: ClusterPlan, started: _Started) -> Running:
        """An API server that serves attachments, as with Multus, and nodes that run what is installed."""
        kubeconfig, routes = await self._api_server(plan, started.stack)
        client = await started.stack.enter_async_context(await connect(kubeconfig=str(kubeconfig)))
        await definitions.install(client, definitions.BARE)
        if self._stand_ins:
            started.run(StandIns(client, plan.nodes, elsewhere=is_berth))
            folder = self._directory / plan.name
            started.run(BerthNode(client, kubeconfig=kubeconfig, directory=folder, found=routes.__setitem__))
        return Running(plan.name, client.server, kubeconfig, _names(plan))

    async def _api_server(
        self, plan: ClusterPlan, stack: contextlib.AsyncExitStack
    ) -> tuple[Path, dict[Route, tuple[str, int]]]:
        """The kubeconfig of the cluster, in our directory, and where it looks for Services.

        Starts a stand-in where no kubeconfig was given. A real API server finds Services by their cluster IPs.
        """
        target = self._directory / f"{plan.name}.kubeconfig"
        if plan.name in self._kubeconfigs:
            write_private(target, standing_alone(self._kubeconfigs[plan.name]))
            return target, {}
        cluster = await stack.enter_async_context(Cluster(plan.name))
        write_private(target, cluster.kubeconfig())
        return target, cluster.services


def _names(plan: ClusterPlan) -> tuple[str, ...]:
    return tuple(node.name for node in plan.nodes)


class Runs(Protocol):
    """Something that runs until it is cancelled."""

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Started:
    """What has been started, and how it ends: what serves is asked to stop, what runs for ever is cancelled."""

    stack: contextlib.AsyncExitStack
    tasks: asyncio.TaskGroup
    stop: asyncio.Event
    running: list[asyncio.Task[None]]

    def run(self, part: Runs) -> None:
        self.running.append(self.tasks.create_task(part.run()))

    async def end(self) -> None:
        """End the parts in reverse order of their start, so that no part loses one that it depends on."""
        for task in reversed(self.running):
            task.cancel()
            await asyncio.wait({task})
        self.stop.set()
