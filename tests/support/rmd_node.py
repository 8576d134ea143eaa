"""A node with kubelet's stand-in and the node agent, in the cluster of `rmd_cluster`; no kubelet writes statuses there."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from app.devtools.kubelet.server import Kubelet
from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.resources import EVENTS, PODS
from app.rmd.agent.agent import NodeAgentOptions, attend
from app.rmd.model import L3_CACHE_WAYS, RMD_WORKLOADS
from app.wire import JSON
from tests.support.kubelet import MACHINE
from tests.support.rmd_cluster import NAMESPACE, RmdCluster
from tests.support.running import at_work

NODE = "n1"


def container(name: str = "c", *, cpu: str = "2", ways: str = "2", **more: Any) -> JSON:
    amounts = {"cpu": cpu, "memory": "64Mi"} | ({L3_CACHE_WAYS: ways} if ways else {})
    return {"name": name, "image": "i", "resources": {"requests": dict(amounts), "limits": amounts}, **more}


class Node:
    """Pods of a node, which kubelet's stand-in admits. `folder` has its sockets."""

    def __init__(self, cluster: RmdCluster, kubelet: Kubelet, folder: Path, name: str = NODE) -> None:
        self.cluster, self.kubelet, self.folder, self.name = cluster, kubelet, folder, name

    async def run(
        self,
        name: str,
        *containers: JSON,
        namespace: str = NAMESPACE,
        phase: str = "Running",
        restart: str = "Always",
        **annotations: str,
    ) -> JSON:
        """Create a Pod on the node; in any phase but Pending kubelet has given it its CPUs."""
        metadata = {"name": name, "annotations": annotations}
        spec = {"nodeName": self.name, "restartPolicy": restart, "containers": list(containers) or [container()]}
        made = await self.cluster.admin.create(PODS, PODS.body(metadata, spec=spec), namespace=namespace)
        if phase != "Pending":
            await self.admit(made, phase)
        return made

    async def admit(self, pod: JSON, phase: str = "Running") -> None:
        bare = {**pod, "spec": {**pod["spec"], "containers": [_without_ways(one) for one in pod["spec"]["containers"]]}}
        await self.kubelet.admit(bare)
        await self.says(pod, phase=phase, startTime="2026-01-01T00:00:00Z")

    async def says(self, pod: JSON, **status: Any) -> None:
        metadata = pod["metadata"]
        await self.cluster.admin.patch(
            PODS,
            metadata["name"],
            {"status": status},
            patch_type="merge",
            namespace=metadata["namespace"],
            subresource="status",
        )

    async def end(self, pod: JSON) -> None:
        """Delete it at once, as after its grace."""
        metadata = pod["metadata"]
        self.kubelet.remove(metadata["uid"])
        await self.cluster.admin.delete(PODS, metadata["name"], namespace=metadata["namespace"], grace_period_seconds=0)

    def specs(self, namespace: str = NAMESPACE) -> dict[str, JSON]:
        """The RmdWorkloads by their names."""
        found = self.cluster.stored(RMD_WORKLOADS, namespace)
        return {one["metadata"]["name"]: one["spec"] for one in found}

    def cores(self, namespace: str = NAMESPACE) -> dict[str, list[str]]:
        return {name: spec["coreIds"] for name, spec in self.specs(namespace).items()}

    def events(self, namespace: str = NAMESPACE) -> list[tuple[str, str]]:
        """Reason and message of each Event, by their reasons."""
        return sorted((one["reason"], one["message"]) for one in self.cluster.stored(EVENTS, namespace))

    @contextlib.asynccontextmanager
    async def agent(
        self, client: KubeClient | None = None, *, ready: bool = True, **options: Any
    ) -> AsyncIterator[Kit]:
        """With `ready` as soon as it is."""
        resync = options.pop("resync", None)
        chosen: dict[str, Any] = {"announce": False, "interval": 0.2} | options
        certificate = self.folder / "certificate"
        async with self.cluster.connected(client) as own:
            recorder = EventRecorder(lambda: own, role="rmd-node", instance="i")
            kit = Kit(own, events=recorder, resync=resync)
            attend(kit, options=NodeAgentOptions(self.name, self.folder, NAMESPACE, certificate, **chosen))
            async with at_work(kit, recorder, ready=ready):
                yield kit


@contextlib.asynccontextmanager
async def node(cluster: RmdCluster, name: str = NODE, *, create: bool = True) -> AsyncIterator[Node]:
    """With `create` the Node is made as well."""
    # The path of a test's own folder may be too long for a socket.
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        async with Kubelet(folder, MACHINE) as kubelet:
            if create:
                await cluster.add_node(name)
            yield Node(cluster, kubelet, folder, name)


def _without_ways(one: JSON) -> JSON:
    """What kubelet would ask a device plugin for is left out: these tests have none."""
    amounts = {key: value for key, value in one["resources"]["limits"].items() if key != L3_CACHE_WAYS}
    return {**one, "resources": {"requests": amounts, "limits": amounts}}
