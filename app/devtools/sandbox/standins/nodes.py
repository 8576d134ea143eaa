"""The Node objects of a sandbox: what a kubelet reports about its machine, and keeping that report alive.

Creates each node once and then only fills in what is missing: capacity that a user patched into a status is kept.
All capacity is allocatable, as a kubelet reports it for devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.resources import NODES
from app.kube.store import Key, Store
from app.text import stamp
from app.wire import JSON

HEARTBEAT = 60.0
"""Seconds between two looks at a node when nothing happens."""
_NOT_READY = "node.kubernetes.io/not-ready"
_CAPACITY = {
    "cpu": "8",
    "memory": "32Gi",
    "pods": "110",
    "ephemeral-storage": "100Gi",
    "hugepages-1Gi": "0",
    "hugepages-2Mi": "0",
}


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node that the sandbox has; `capacity` adds to the usual cpu, memory, pods and storage, or replaces them."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[JSON] = ()
    version: str = "v1.36.0"
    address: str = ""


def desired_node(spec: NodeSpec) -> JSON:
    """The Node to create; its status is reported separately, as kubelets do."""
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        **spec.labels,
    }
    taints = {"taints": [dict(taint) for taint in spec.taints]} if spec.taints else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": spec.name, "labels": labels}, "spec": taints}


def status_patch(spec: NodeSpec, node: JSON, *, now: str) -> JSON:
    """What is missing in the node's status, as a merge patch; empty where the report is complete."""
    status: JSON = node.get("status") or {}
    found: JSON = status.get("capacity") or {}
    missing = {name: amount for name, amount in {**_CAPACITY, **spec.capacity}.items() if name not in found}
    capacity = {**missing, **found}
    patch: JSON = {"capacity": missing} if missing else {}
    allocatable: JSON = status.get("allocatable") or {}
    changed = {name: amount for name, amount in capacity.items() if allocatable.get(name) != amount}
    gone = dict.fromkeys(name for name in allocatable if name not in capacity)
    if changed or gone:
        patch["allocatable"] = changed | gone
    conditions: list[JSON] = status.get("conditions") or []
    if not any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        patch["conditions"] = _conditions(now)
    if not status.get("addresses"):
        address = spec.address or "127.0.0.1"
        patch["addresses"] = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": spec.name}]
    if not (status.get("nodeInfo") or {}).get("kubeletVersion"):
        patch["nodeInfo"] = _node_info(spec)
    return patch


def _conditions(now: str) -> list[JSON]:
    calm = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    return [
        {
            "type": kind,
            "status": state,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, state, reason, message in calm
    ]


def _node_info(spec: NodeSpec) -> JSON:
    return {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "osImage": "Berth sandbox",
        "kernelVersion": "sandbox",
        "containerRuntimeVersion": "sandbox://1",
        "kubeletVersion": spec.version,
        "kubeProxyVersion": "",
        "machineID": spec.name,
        "systemUUID": spec.name,
        "bootID": spec.name,
    }


class NodeKeeper:
    """Creates the nodes of a sandbox and keeps their reports complete; other nodes are none of its business."""

    def __init__(self, client: KubeClient, specs: Sequence[NodeSpec], nodes: Store[JSON]) -> None:
        self._client = client
        self._specs = {spec.name: spec for spec in specs}
        self._nodes = nodes
        self.controller: Controller[Key] = Controller(
            "nodes", self._reconcile, stores=[nodes], keys=lambda: [("", name) for name in self._specs], workers=1
        )
        nodes.subscribe(lambda _, key, __, ___: self.controller.enqueue(key))

    async def _reconcile(self, key: Key) -> Result:
        spec = self._specs.get(key[1])
        if spec is None:
            return Done()
        node = self._nodes.get("", spec.name)
        try:
            if node is None:
                node = await self._client.create(NODES, desired_node(spec))
            patch = status_patch(spec, node, now=stamp())
            if patch:
                body = {"metadata": {"uid": node["metadata"]["uid"]}, "status": patch}
                node = await self._client.patch(NODES, spec.name, body, patch_type="merge", subresource="status")
            await self._open(node)
        except ApiError as error:
            if not (error.conflict or error.not_found):
                raise
            # Another client created or replaced the node: the cache will show it in a moment.
            return RequeueAfter(0.2)
        return RequeueAfter(HEARTBEAT)

    async def _open(self, node: JSON) -> None:
        """Removes the not-ready taint that an API server puts on a new node."""
        taints: list[JSON] = (node.get("spec") or {}).get("taints") or []
        kept = [taint for taint in taints if taint.get("key") != _NOT_READY]
        if kept != taints:
            metadata = node["metadata"]
            guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
            body = {"metadata": guard, "spec": {"taints": kept or None}}
            await self._client.patch(NODES, metadata["name"], body, patch_type="merge")
