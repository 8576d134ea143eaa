"""Hosts with cache ways in a cluster of the sandbox: a stand-in for RMD on each, and kubelet's resource managers."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from app.devtools.clusters.node.addresses import claim
from app.devtools.clusters.node.status import Seen, report
from app.devtools.kubelet.cpus import Machine as Cpus
from app.devtools.kubelet.server import Kubelet
from app.devtools.rmd.machine import Cache, Machine
from app.devtools.rmd.server import serve
from app.devtools.rmd.workloads import Daemon
from app.devtools.sandbox.standins.reconciling import Watched, reconciling
from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS, DAEMON_SETS, NODES, PODS, controller_reference
from app.kube.store import Key
from app.rmd.controller.installing import AGENT, DAEMON, TEMPLATES
from app.rmd.model import DAEMON_LABEL, DAEMON_NAMESPACE, DAEMON_VALUE, PLAIN_PORT, TEMPLATES_NAME
from app.wire import JSON
from app.wiring import RELEASE_NAMESPACE

_CPUS = Cpus({0: range(4), 1: range(4, 8)}, reserved=frozenset({0}))
_MACHINE = Machine(caches=(Cache(0, "0-3"), Cache(1, "4-7", 1, 1)))
_TEMPLATE = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {name}}}
spec:
  selector:
    matchLabels: {{name: {pods}}}
  template:
    metadata:
      labels: {{name: {pods}}}
    spec:
      containers:
      - {{name: rmd, image: {name}, ports: [{{name: http, containerPort: {port}}}]}}
"""


class RmdHosts:
    """`kubelets` by the name of the host, `folders` with their sockets. `run` keeps Nodes and the daemons' Pods.

    A daemon has a Pod while there is DaemonSet `rmd`, which an RmdConfig makes: `addresses` is where it listens.
    """

    def __init__(self, client: KubeClient, names: Sequence[str], folder: Path) -> None:
        self._client, self._watched = client, Watched(client)
        self._sets, self._pods, self._nodes = (self._watched.store(one) for one in (DAEMON_SETS, PODS, NODES))
        self.addresses: dict[str, str] = {}
        self.folders = {name: folder / str(number) for number, name in enumerate(names)}
        self.kubelets = {
            name: Kubelet(path, _CPUS, changed=partial(self._enqueue, name)) for name, path in self.folders.items()
        }
        stores = (self._nodes, self._sets, self._pods)
        self._controller = reconciling(
            "rmd-hosts", self._reconcile, *stores, keys=lambda: [("", name) for name in names], workers=1
        )
        for store in (self._sets, self._pods):
            store.subscribe(lambda *_change: self._enqueue(*names))

    @staticmethod
    def runs(pod: JSON) -> bool:
        """Whether it is the Pod of one of the daemons, which are parts of the sandbox."""
        metadata = pod["metadata"]
        return bool(
            metadata["namespace"] == DAEMON_NAMESPACE
            and (metadata.get("labels") or {}).get(DAEMON_LABEL) == DAEMON_VALUE
        )

    async def install(self) -> None:
        """What the chart has for an RmdConfig."""
        texts = {
            TEMPLATES[DAEMON]: _TEMPLATE.format(name=DAEMON, pods=DAEMON_VALUE, port=PLAIN_PORT),
            TEMPLATES[AGENT]: _TEMPLATE.format(name=AGENT, pods="rmd-node-agent-pod", port=8444),
        }
        body = {**CONFIG_MAPS.body({"name": TEMPLATES_NAME}), "data": texts}
        await self._client.apply(CONFIG_MAPS, TEMPLATES_NAME, body, namespace=RELEASE_NAMESPACE)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watched.run())
            tasks.create_task(self._controller.run())

    def _enqueue(self, *names: str) -> None:
        for name in names:
            self._controller.enqueue(("", name))

    async def _reconcile(self, key: Key) -> None:
        node = self._nodes.get(*key)
        if node is None or key[1] not in self.kubelets:
            return
        await self._report(node, self.kubelets[key[1]].resources)
        await self._daemon(key[1])

    async def _report(self, node: JSON, resources: Mapping[str, tuple[int, int]]) -> None:
        """As kubelet does; what cannot be allocated is no capacity here, since all capacity is allocatable."""
        amounts = {resource: str(healthy) for resource, (_, healthy) in resources.items()}
        if not amounts.items() <= ((node.get("status") or {}).get("capacity") or {}).items():
            body = {"status": {"capacity": amounts, "allocatable": amounts}}
            name = node["metadata"]["name"]
            await self._client.patch(NODES, name, body, patch_type="merge", subresource="status")

    async def _daemon(self, node: str) -> None:
        name, daemons = f"rmd-{node}", self._sets.get(DAEMON_NAMESPACE, DAEMON)
        pod = self._pods.get(DAEMON_NAMESPACE, name)
        if pod is None and daemons is not None and "deletionTimestamp" not in daemons["metadata"]:
            template = daemons["spec"]["template"]
            metadata = {"name": name, "labels": template["metadata"]["labels"]}
            owner = controller_reference(DAEMON_SETS, DAEMON, daemons["metadata"]["uid"])
            body = PODS.body({**metadata, "ownerReferences": [owner]}, spec={**template["spec"], "nodeName": node})
            await self._client.create(PODS, body, namespace=DAEMON_NAMESPACE)
        elif pod is not None and "deletionTimestamp" in pod["metadata"]:
            uid = pod["metadata"]["uid"]
            await self._client.delete(PODS, name, namespace=DAEMON_NAMESPACE, uid=uid, grace_period_seconds=0)
        elif pod is not None and (pod.get("status") or {}).get("podIP") != self.addresses[node]:
            await report(self._client, pod, Seen(self.addresses[node], ready=True, restarts=0))


@contextlib.asynccontextmanager
async def rmd_hosts(client: KubeClient, names: Sequence[str]) -> AsyncIterator[RmdHosts]:
    """Kubelets and daemons of these hosts while the block runs. Each daemon has an address of its own."""
    # A path of a unix socket is short: the directory of a sandbox may be deep.
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        hosts = RmdHosts(client, names, Path(folder))
        async with contextlib.AsyncExitStack() as stack:
            for name, kubelet in hosts.kubelets.items():
                await stack.enter_async_context(kubelet)
                address = claim()
                stack.callback(address.release)
                await stack.enter_async_context(serve(Daemon(_MACHINE), address=address.address, port=PLAIN_PORT))
                hosts.addresses[name] = address.address
            yield hosts
