"""The parts of a cluster beside its API server in one object: nodes, scheduler, kubelets, controllers.

They are ordinary clients: they speak to the sandbox's API server or to a real one that has none of these beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from app.devtools.sandbox.standins.deployments import DeploymentKeeper
from app.devtools.sandbox.standins.gc import GarbageCollector
from app.devtools.sandbox.standins.jobs import JobRunner
from app.devtools.sandbox.standins.kubelet import Kubelet
from app.devtools.sandbox.standins.namespaces import NamespaceCollector
from app.devtools.sandbox.standins.nodes import NodeKeeper, NodeSpec
from app.devtools.sandbox.standins.quotas import QuotaCounter
from app.devtools.sandbox.standins.replicasets import ReplicaSetKeeper
from app.devtools.sandbox.standins.scheduler import Scheduler
from app.kube.client import KubeClient
from app.kube.reflector import Reflector
from app.kube.resources import DEPLOYMENTS, JOBS, NAMESPACES, NODES, PODS, REPLICA_SETS, RESOURCE_QUOTAS, Resource
from app.kube.store import Store
from app.wire import JSON

_WATCHED = (PODS, NODES, NAMESPACES, DEPLOYMENTS, REPLICA_SETS, JOBS, RESOURCE_QUOTAS)


class StandIns:
    """The controllers, the scheduler and the kubelets of one cluster; `nodes` are the nodes that it has.

    Pods for which `elsewhere` returns true are skipped: the caller runs them and writes their status.
    """

    def __init__(
        self,
        client: KubeClient,
        nodes: Sequence[NodeSpec],
        *,
        elsewhere: Callable[[JSON], bool] = lambda _pod: False,
    ) -> None:
        stores: dict[Resource, Store[JSON]] = {resource: Store(_without_managed_fields) for resource in _WATCHED}
        pods, known, sets = stores[PODS], stores[NODES], stores[REPLICA_SETS]
        self._reflectors = [Reflector(client, resource, store) for resource, store in stores.items()]
        names = [spec.name for spec in nodes]
        self._controllers = [
            NodeKeeper(client, nodes, known).controller,
            Scheduler(client, pods, known, stores[NAMESPACES]).controller,
            Kubelet(client, names, pods, known, elsewhere=elsewhere).controller,
            NamespaceCollector(client, stores[NAMESPACES]).controller,
            DeploymentKeeper(client, stores[DEPLOYMENTS], sets).controller,
            ReplicaSetKeeper(client, sets, pods).controller,
            JobRunner(client, stores[JOBS], pods).controller,
            QuotaCounter(client, stores[RESOURCE_QUOTAS]).controller,
        ]
        self._garbage = GarbageCollector(client)

    async def run(self) -> None:
        """Runs until cancelled; faults of the API server are waited out."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            for controller in self._controllers:
                group.create_task(controller.run())
            group.create_task(self._garbage.run())


def _without_managed_fields(obj: JSON) -> JSON:
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"}}
