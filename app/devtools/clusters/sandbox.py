"""Stands up the sandbox: an infra and two tenant clusters with nodes, and Berth in each of them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from app.claims.wing import WING as CLAIMS
from app.devtools.claims.multus import MultusStandIn
from app.devtools.clusters import definitions
from app.devtools.clusters.accounts import permit_users
from app.devtools.clusters.api_servers import ApiServers, Opened
from app.devtools.clusters.berth import Berth
from app.devtools.clusters.claims import DEVICES, RESOURCE, give_devices
from app.devtools.clusters.kubeconfigs import joined, write_private
from app.devtools.clusters.node.inside import Inside
from app.devtools.clusters.node.node import BerthNode
from app.devtools.clusters.node.pod_process import Makes, is_berth
from app.devtools.clusters.parts import Parts, running_parts
from app.devtools.clusters.plans import CLUSTERS, EVERY_WING, INFRA, ClusterPlan
from app.devtools.clusters.quota import give_quota
from app.devtools.clusters.release import Release, is_of_release
from app.devtools.clusters.rmd import RmdHosts, rmd_hosts
from app.devtools.sandbox.standins.kubelet import NodeSpec
from app.devtools.sandbox.standins.standins import StandIns
from app.wire import JSON

_CLUSTERS = tuple(plan.name for plan in CLUSTERS)
PATHS = (
    *_CLUSTERS,
    *(f"{name}.kubeconfig" for name in _CLUSTERS),
    *("kubeconfig", "webhook", "gateway", "gateway.addr", "admin", "tenants"),
)
"""What a sandbox writes in its directory."""


@dataclass(frozen=True, slots=True)
class Running:
    """One cluster that is up: how to reach it, and its webhook's `host:port` ("" where it has none)."""

    name: str
    url: str
    kubeconfig: Path
    nodes: tuple[str, ...]
    webhook: str = ""


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
    that the sandbox writes: `<cluster>.kubeconfig`, `kubeconfig` with a context for each cluster, `webhook/`,
    `gateway/`, `admin/` and `tenants/` (certificates), and `gateway.addr`.

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
        self._servers = ApiServers(directory, kubeconfigs or {})
        self._stand_ins = stand_ins
        self._bare = bare
        self._log_level = log_level

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Whole]:
        """The sandbox, for as long as the block runs."""
        async with contextlib.AsyncExitStack() as stack, running_parts() as parts:
            whole = await (self._start_bare(stack, parts) if self._bare else self._start(stack, parts))
            every = joined({one.name: one.kubeconfig for one in whole.clusters}, current=EVERY_WING)
            write_private(self._directory / "kubeconfig", every)
            yield whole

    def clear(self) -> None:
        """Remove PATHS, keys above all, once it does not run any more; logs of a `bare` one stay.

        For a directory in which nothing else goes by these names.
        """
        for name in PATHS:
            path = self._directory / name
            if self._bare and name in _CLUSTERS:
                shutil.rmtree(path / "pods", ignore_errors=True)
                with contextlib.suppress(OSError):  # there are logs
                    (path / "logs").rmdir()
                    path.rmdir()
            elif path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    async def _start(self, stack: contextlib.AsyncExitStack, parts: Parts) -> Whole:
        berth = Berth(self._directory, parts, log_level=self._log_level)
        clusters, clients = [], {}
        for plan in CLUSTERS:
            opened = await self._servers.open(plan, stack)
            infra = plan.name == INFRA
            await definitions.prepare(opened.client, definitions.INFRA if infra else definitions.TENANT)
            every = self._stand_ins and plan.name == EVERY_WING
            if every:
                webhook = await self._start_every_wing(opened, plan, stack, parts, berth)
            else:
                if self._stand_ins:
                    await self._give_nodes(opened, plan, parts, berth)
                webhook = await berth.start_webhook(opened.client, plan.name)
            await permit_users(opened.client)
            clusters.append(_running(plan, opened, webhook))
            clients[plan.name] = opened.client
        return Whole(tuple(clusters), await berth.start_workload_api(clients))

    async def _start_every_wing(
        self, opened: Opened, plan: ClusterPlan, stack: contextlib.AsyncExitStack, parts: Parts, berth: Berth
    ) -> str:
        """With AppWrappers and quota for them, and with hosts that have cache ways and devices to give."""
        client = opened.client
        hosts = await stack.enter_async_context(rmd_hosts(client, plan.hosts))
        await self._give_nodes(opened, plan, parts, berth, hosts)
        parts.run(hosts)
        webhook = await berth.start_webhook(client, plan.name, every=True)
        await definitions.install(client, (*definitions.APP_WRAPPERS, *definitions.RMD))
        await give_quota(client, parts)
        claims = await give_devices(client, parts, plan.hosts)
        await hosts.install()
        await berth.start_further_controllers(plan.name, without=() if claims else (CLAIMS.name,))
        await berth.start_node_agents(plan.name, hosts.folders)
        return webhook

    async def _give_nodes(
        self, opened: Opened, plan: ClusterPlan, parts: Parts, berth: Berth, hosts: RmdHosts | None = None
    ) -> None:
        """Stand-ins, and a node that runs the roles of Berth within this process; with `hosts` their kubelets."""
        node = self._node(opened, plan, make=Inside, chosen=is_of_release)
        if hosts is None:
            stand_ins = StandIns(opened.client, plan.nodes, elsewhere=node.runs)
        else:
            stand_ins = StandIns(
                opened.client,
                plan.nodes,
                elsewhere=lambda pod: node.runs(pod) or hosts.runs(pod),
                resources=hosts.kubelets,
                networks=MultusStandIn(opened.client),
            )
        parts.run(stand_ins)
        parts.run(node)
        await berth.install(plan.name, Release(opened.client, opened.services))

    def _node(
        self,
        opened: Opened,
        plan: ClusterPlan,
        *,
        make: Makes | None = None,
        chosen: Callable[[JSON], bool] = is_berth,
    ) -> BerthNode:
        return BerthNode(
            opened.client,
            kubeconfig=opened.kubeconfig,
            directory=self._directory / plan.name,
            found=opened.services.__setitem__,
            processes=opened.processes,
            make=make,
            chosen=chosen,
        )

    async def _start_bare(self, stack: contextlib.AsyncExitStack, parts: Parts) -> Whole:
        """API servers that serve attachments, and nodes with Multus that run what is installed.

        The hosts of tenants offer devices, as with a device plugin.
        """
        clusters = []
        for plan in CLUSTERS:
            opened = await self._servers.open(plan, stack)
            client = opened.client
            await definitions.install(client, definitions.BARE)
            if self._stand_ins:
                node = self._node(opened, plan)
                nodes = [_with_devices(one) if one.name in plan.hosts else one for one in plan.nodes]
                parts.run(StandIns(client, nodes, elsewhere=node.runs, networks=MultusStandIn(client)))
                parts.run(node)
            clusters.append(_running(plan, opened))
        return Whole(tuple(clusters))


def _with_devices(node: NodeSpec) -> NodeSpec:
    return replace(node, capacity={**node.capacity, RESOURCE: str(DEVICES)})


def _running(plan: ClusterPlan, opened: Opened, webhook: str = "") -> Running:
    nodes = tuple(node.name for node in plan.nodes)
    return Running(plan.name, opened.client.server, opened.kubeconfig, nodes, webhook)
