"""The parts of a cluster beside its API server in one object: nodes, scheduler, kubelets, garbage collection.

They are ordinary clients: they speak to the sandbox's API server or to a real one that has none of these beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.kube.reflector import Reflector
from app.kube.resources import NAMESPACES, NODES, PODS
from app.kube.store import Store
from app.sandbox.standins.catalog import DiscoveringClient
from app.sandbox.standins.gc import GarbageCollector
from app.sandbox.standins.kubelet import Kubelet
from app.sandbox.standins.namespaces import NamespaceCollector
from app.sandbox.standins.nodes import NodeKeeper, NodeSpec
from app.sandbox.standins.scheduler import Scheduler
from app.wire import JSON


class StandIns:
    """Everything that makes the objects of one cluster move; `nodes` are the nodes that it has."""

    def __init__(self, client: DiscoveringClient, nodes: Sequence[NodeSpec]) -> None:
        self._pods: Store[JSON] = Store(_without_managed_fields)
        self._nodes: Store[JSON] = Store(_without_managed_fields)
        self._namespaces: Store[JSON] = Store(_without_managed_fields)
        self._reflectors = [
            Reflector(client, PODS, self._pods),
            Reflector(client, NODES, self._nodes),
            Reflector(client, NAMESPACES, self._namespaces),
        ]
        self._controllers = [
            NodeKeeper(client, nodes, self._nodes).controller,
            Scheduler(client, self._pods, self._nodes).controller,
            Kubelet(client, [spec.name for spec in nodes], self._pods, self._nodes).controller,
            NamespaceCollector(client, self._namespaces).controller,
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
