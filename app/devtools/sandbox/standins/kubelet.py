"""What the kubelets of a sandbox do: they report their nodes, and make Pods run, on paper.

A node is created once, and then only what is missing is filled in: capacity that a user patched into a status is kept.
All capacity is allocatable, as a kubelet reports it for devices. Of a Pod: status, addresses, the confirmation of its
deletion. No container is started; its command says when it ends (`commands`), or an annotation
(`podstatus.EXIT_ANNOTATION`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from app.devtools.kubelet.containers import in_order
from app.devtools.kubelet.cpus import NotAdmitted
from app.devtools.sandbox.standins.allocations import Claims, Prepared, health_of_claims
from app.devtools.sandbox.standins.podstatus import is_reported, next_step, pod_status
from app.devtools.sandbox.standins.reconciling import Watched, reconciling
from app.devtools.sandbox.standins.sandboxes import AGAIN, Networks, Sandboxes
from app.kube.client import KubeClient
from app.kube.resources import NODES, PODS
from app.kube.store import Key
from app.text import stamp
from app.wire import JSON

_HEARTBEAT = 60.0
"""Seconds between two looks at a node when nothing happens."""
_SOONEST = 0.05
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


Elsewhere = Callable[[JSON], bool]
"""Whether something else runs a Pod: then its kubelet leaves it alone."""


class Resources(Protocol):
    """The resource managers of one node, as `app.devtools.kubelet.server.Kubelet` has them."""

    async def admit(self, pod: JSON, claims: Mapping[str, Prepared] = ...) -> None:
        """Raises NotAdmitted."""
        ...

    def health(self, uid: str, container: str) -> Sequence[JSON]:
        """Its devices, as entries of `allocatedResourcesStatus`."""
        ...

    def remove(self, uid: str) -> None: ...


class NodeKeeper:
    """Creates the nodes of a sandbox and keeps their reports complete; other nodes are none of its business."""

    def __init__(self, client: KubeClient, watched: Watched, specs: Sequence[NodeSpec]) -> None:
        self._client = client
        self._specs = {spec.name: spec for spec in specs}
        self._nodes = watched.store(NODES)
        self.controller = reconciling(
            "nodes", self._reconcile, self._nodes, keys=lambda: [("", name) for name in self._specs], workers=1
        )

    async def _reconcile(self, key: Key) -> float | None:
        spec = self._specs.get(key[1])
        if spec is None:
            return None
        node = self._nodes.get("", spec.name)
        if node is None:
            node = await self._client.create(NODES, _desired_node(spec))
        patch = _status_patch(spec, node, now=stamp())
        if patch:
            body = {"metadata": {"uid": node["metadata"]["uid"]}, "status": patch}
            node = await self._client.patch(NODES, spec.name, body, patch_type="merge", subresource="status")
        await self._open(node)
        return _HEARTBEAT

    async def _open(self, node: JSON) -> None:
        """Removes the not-ready taint that an API server puts on a new node."""
        taints: list[JSON] = (node.get("spec") or {}).get("taints") or []
        kept = [taint for taint in taints if taint.get("key") != _NOT_READY]
        if kept != taints:
            metadata = node["metadata"]
            guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
            body = {"metadata": guard, "spec": {"taints": kept or None}}
            await self._client.patch(NODES, metadata["name"], body, patch_type="merge")


class Kubelet:
    """Acts for these nodes alone. Those in `resources` have resource managers, which admit Pods."""

    def __init__(
        self,
        client: KubeClient,
        watched: Watched,
        specs: Sequence[NodeSpec],
        *,
        elsewhere: Elsewhere,
        resources: Mapping[str, Resources],
        networks: Networks | None = None,
    ) -> None:
        self._client, self._resources = client, resources
        self._names = {spec.name for spec in specs}
        self._elsewhere = elsewhere
        self._pods, self._nodes = watched.store(PODS), watched.store(NODES)
        self._claims = Claims(client)
        self.sandboxes = Sandboxes(client, self._pods, networks)
        self.controller = reconciling("kubelet", self._reconcile, self._pods, self._nodes)
        self._pods.subscribe(lambda _event, _key, old, new: self._free(old, new))

    def _free(self, old: JSON | None, new: JSON | None) -> None:
        """What a Pod had is free when it has ended or is gone."""
        if old is not None and (new is None or _is_over(new) or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self.sandboxes.end(old)
            self._claims.forget(old["metadata"]["uid"])
            for manager in self._resources.values():
                manager.remove(old["metadata"]["uid"])

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(*key)
        if pod is None:
            return None
        if pod["spec"].get("nodeName") not in self._names or self._elsewhere(pod):
            return None
        if pod["metadata"].get("deletionTimestamp"):
            await self._confirm_deletion(pod)
        elif not _is_over(pod) and await self._admitted(key, pod):
            return await self._report(key, pod)
        return None

    async def _admitted(self, key: Key, pod: JSON) -> bool:
        manager = self._resources.get(pod["spec"]["nodeName"])
        if manager is None:
            return True
        try:
            await manager.admit(pod, await self._claims.of(pod))
        except NotAdmitted as error:
            status = {"phase": "Failed", "reason": error.reason, "message": f"Pod was rejected: {error}"}
            body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {**status, "startTime": stamp()}}
            await self._client.patch(PODS, key[1], body, patch_type="strategic", namespace=key[0], subresource="status")
            return False
        return True

    async def _confirm_deletion(self, pod: JSON) -> None:
        metadata = pod["metadata"]
        if metadata.get("deletionGracePeriodSeconds") == 0:
            # Confirmed before: a finalizer holds it now, which is not ours to remove.
            return
        await self._client.delete(
            PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"], grace_period_seconds=0
        )

    async def _report(self, key: Key, pod: JSON) -> float | None:
        """Write what has changed; the answer is in how many seconds the next step of a container is due."""
        host_ip = self._host_ip(pod["spec"]["nodeName"])
        pod_ip = await self.sandboxes.address(pod, host_ip)
        now = datetime.now(UTC)
        status = pod_status(pod, now=now, pod_ip=pod_ip, host_ip=host_ip, health=await self._health(pod))
        if not is_reported(pod, status):
            body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
            await self._client.patch(PODS, key[1], body, patch_type="strategic", namespace=key[0], subresource="status")
            return None  # the change of the Pod brings it here again
        if not pod_ip:
            return AGAIN
        due = next_step(pod, status)
        return None if due is None else max((due - now).total_seconds(), _SOONEST)

    async def _health(self, pod: JSON) -> Mapping[str, Sequence[JSON]]:
        """Of what containers were given, by their names."""
        uid, claims = pod["metadata"]["uid"], await self._claims.of(pod)
        manager = self._resources.get(pod["spec"]["nodeName"])
        return {
            container.name: [
                *(manager.health(uid, container.name) if manager else ()),
                *health_of_claims(container.spec, claims),
            ]
            for container in in_order(pod)
        }

    def _host_ip(self, node: str) -> str:
        found = self._nodes.get("", node) or {}
        addresses = (found.get("status") or {}).get("addresses") or []
        return next((str(a["address"]) for a in addresses if a.get("type") == "InternalIP"), "127.0.0.1")


def _is_over(pod: JSON) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _desired_node(spec: NodeSpec) -> JSON:
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


def _status_patch(spec: NodeSpec, node: JSON, *, now: str) -> JSON:
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
