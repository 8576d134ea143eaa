"""Hosts with cache ways in a cluster of the sandbox: a stand-in for RMD on each, and kubelet's resource managers."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from app.devtools.clusters.node.addresses import claim
from app.devtools.kubelet.cpus import Machine as Cpus
from app.devtools.kubelet.server import Kubelet
from app.devtools.rmd.machine import Cache, Machine
from app.devtools.rmd.server import serve
from app.devtools.rmd.workloads import Daemon
from app.kube.client import KubeClient
from app.kube.resources import DAEMON_SETS, NODES, PODS
from app.kube.retry import if_there
from app.rmd.model import DAEMON_LABEL, DAEMON_NAMESPACE, DAEMON_VALUE, DEFAULT_NODES, PLAIN_PORT
from app.text import stamp
from app.wire import JSON

_CPUS = Cpus({0: range(4), 1: range(4, 8)}, reserved=frozenset({0}))
_MACHINE = Machine(caches=(Cache(0, "0-3"), Cache(1, "4-7", 1, 1)))
_LABELS = {DAEMON_LABEL: DAEMON_VALUE}
_CONTAINER: JSON = {"name": "rmd", "image": "rmd", "ports": [{"name": "http", "containerPort": PLAIN_PORT}]}
_LOOK = 1.0


class RmdHosts:
    """`kubelets` by the name of the host, `folders` with their sockets. `run` keeps the capacity of the nodes."""

    def __init__(self, client: KubeClient, names: Sequence[str], folder: Path) -> None:
        self._client = client
        self._changed = asyncio.Event()
        self.folders = {name: folder / str(number) for number, name in enumerate(names)}
        self.kubelets = {name: Kubelet(path, _CPUS, changed=self._changed.set) for name, path in self.folders.items()}

    @staticmethod
    def runs(pod: JSON) -> bool:
        """Whether it is the Pod of one of the daemons, which are parts of the sandbox."""
        metadata = pod["metadata"]
        return metadata["namespace"] == DAEMON_NAMESPACE and _LABELS.items() <= (metadata.get("labels") or {}).items()

    async def install(self, addresses: dict[str, str]) -> None:
        """The DaemonSet of the daemons, its Pods, and the label by which Node Feature Discovery marks such nodes."""
        template = {
            "metadata": {"labels": _LABELS},
            "spec": {"containers": [_CONTAINER], "nodeSelector": DEFAULT_NODES},
        }
        body = DAEMON_SETS.body({"name": "rmd"}, spec={"selector": {"matchLabels": _LABELS}, "template": template})
        made = await self._client.create(DAEMON_SETS, body, namespace=DAEMON_NAMESPACE)
        for node, address in addresses.items():
            await self._add_pod(node, address, made["metadata"]["uid"])

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._changed.clear()
            for node, kubelet in self.kubelets.items():
                await if_there(self._report(node, kubelet))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self._changed.wait()

    async def _report(self, node: str, kubelet: Kubelet) -> JSON:
        """As kubelet does; what cannot be allocated is no capacity here, since all capacity is allocatable."""
        found = await self._client.get(NODES, node)
        amounts = {resource: str(healthy) for resource, (_, healthy) in kubelet.resources.items()}
        capacity = (found.get("status") or {}).get("capacity") or {}
        if not DEFAULT_NODES.items() <= (found["metadata"].get("labels") or {}).items():
            await self._client.patch(NODES, node, {"metadata": {"labels": DEFAULT_NODES}}, patch_type="merge")
        if amounts.items() <= capacity.items():
            return found
        body = {"status": {"capacity": amounts, "allocatable": amounts}}
        return await self._client.patch(NODES, node, body, patch_type="merge", subresource="status")

    async def _add_pod(self, node: str, address: str, owner: str) -> None:
        name = f"rmd-{node}"
        reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "rmd", "uid": owner, "controller": True}
        metadata = {"name": name, "labels": _LABELS, "ownerReferences": [reference]}
        spec = {"nodeName": node, "containers": [_CONTAINER]}
        await self._client.create(PODS, PODS.body(metadata, spec=spec), namespace=DAEMON_NAMESPACE)
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": stamp(),
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": stamp()}],
        }
        await self._client.patch(
            PODS, name, {"status": status}, patch_type="merge", namespace=DAEMON_NAMESPACE, subresource="status"
        )


@contextlib.asynccontextmanager
async def rmd_hosts(client: KubeClient, names: Sequence[str]) -> AsyncIterator[RmdHosts]:
    """Kubelets and daemons of these hosts while the block runs. Each daemon has an address of its own."""
    # A path of a unix socket is short: the directory of a sandbox may be deep.
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        hosts, addresses = RmdHosts(client, names, Path(folder)), {}
        async with contextlib.AsyncExitStack() as stack:
            for name, kubelet in hosts.kubelets.items():
                await stack.enter_async_context(kubelet)
                address = claim()
                stack.callback(address.release)
                await stack.enter_async_context(serve(Daemon(_MACHINE), address=address.address, port=PLAIN_PORT))
                addresses[name] = address.address
            await hosts.install(addresses)
            yield hosts
