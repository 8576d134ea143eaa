"""The parts of a cluster beside its API server in one object: nodes, scheduler, kubelets, controllers.

They are ordinary clients: they speak to the sandbox's API server or to a real one that has none of these beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from app.devtools.sandbox.standins.claims import ClaimMaker, ClaimReleaser
from app.devtools.sandbox.standins.clusterroles import RoleAggregator
from app.devtools.sandbox.standins.gc import GarbageCollector
from app.devtools.sandbox.standins.jobs import JobRunner
from app.devtools.sandbox.standins.kubelet import Elsewhere, Kubelet, NodeKeeper, NodeSpec, Resources
from app.devtools.sandbox.standins.namespaces import DefaultAccount, NamespaceCollector, QuotaCounter
from app.devtools.sandbox.standins.reconciling import Watched
from app.devtools.sandbox.standins.sandboxes import Networks
from app.devtools.sandbox.standins.scheduler import Scheduler
from app.devtools.sandbox.standins.statefulsets import StatefulSetKeeper
from app.devtools.sandbox.standins.workloads import DeploymentKeeper, ReplicaSetKeeper
from app.kube.client import KubeClient


class _Part(Protocol):
    async def run(self) -> None: ...


class StandIns:
    """The controllers, the scheduler and the kubelets of one cluster; `nodes` are the nodes that it has.

    Pods for which `elsewhere` returns true are skipped: the caller runs them and writes their status. `resources` are
    resource managers of nodes, which admit Pods there. With `kubelets_only` there are nodes and kubelets, for a cluster
    that has a scheduler and a controller manager of its own. `networks` gives Pods more networks than that of the
    cluster, or refuses: they wait for it.
    """

    def __init__(
        self,
        client: KubeClient,
        nodes: Sequence[NodeSpec],
        *,
        elsewhere: Elsewhere = lambda _pod: False,
        resources: Mapping[str, Resources] = MappingProxyType({}),
        networks: Networks | None = None,
        kubelets_only: bool = False,
    ) -> None:
        watched = Watched(client)
        kubelet = Kubelet(client, watched, nodes, elsewhere=elsewhere, resources=resources, networks=networks)
        keeper = NodeKeeper(client, watched, nodes).controller
        kubelets: tuple[_Part, ...] = (keeper, kubelet.controller, kubelet.sandboxes)
        central = () if kubelets_only else _central(client, watched)
        # What is watched is known when all parts are made.
        self._parts: tuple[_Part, ...] = (watched, *kubelets, *central)

    async def run(self) -> None:
        """Runs until cancelled; faults of the API server are waited out."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run())


def _central(client: KubeClient, watched: Watched) -> tuple[_Part, ...]:
    """What a scheduler and a controller manager do."""
    scheduler = Scheduler(client, watched)
    return (
        scheduler.controller,
        scheduler.events,
        NamespaceCollector(client, watched).controller,
        DefaultAccount(client, watched).controller,
        DeploymentKeeper(client, watched).controller,
        ReplicaSetKeeper(client, watched).controller,
        StatefulSetKeeper(client, watched).controller,
        JobRunner(client, watched).controller,
        QuotaCounter(client, watched).controller,
        RoleAggregator(client, watched).controller,
        ClaimMaker(client, watched).controller,
        ClaimReleaser(client, watched).controller,
        GarbageCollector(client),
    )
