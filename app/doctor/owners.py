"""Finds the owner of a Pod, and builds the command that recreates the Pod: only new Pods are injected into."""

from __future__ import annotations

from dataclasses import dataclass

from app.doctor.cluster import Cluster
from app.doctor.objects import kubectl
from app.errors import ApiError
from app.kube.resources import REPLICA_SETS
from app.wire import JSON

_RESTARTED = {"Deployment": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that created a Pod; for a Pod without a controller, the Pod itself."""

    kind: str
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def owner_of(pod: JSON) -> Owner:
    metadata = pod["metadata"]
    controller = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    kind, name = ("Pod", metadata["name"]) if controller is None else (controller["kind"], controller["name"])
    return Owner(kind, metadata["namespace"], name)


async def topmost(cluster: Cluster, owner: Owner) -> Owner:
    """The Deployment of a ReplicaSet; every other owner itself, and one that may not be read."""
    if owner.kind != "ReplicaSet":
        return owner
    try:
        found = await cluster.get(REPLICA_SETS, owner.name, namespace=owner.namespace)
    except ApiError:
        return owner
    references = (found or {}).get("metadata", {}).get("ownerReferences") or ()
    deployment = next((one for one in references if one.get("controller") and one["kind"] == "Deployment"), None)
    return owner if deployment is None else Owner("Deployment", owner.namespace, deployment["name"])


def renew(owner: Owner, pods: list[str]) -> str:
    """Has the Pods made anew, one after the other where the owner can do that."""
    if owner.kind in _RESTARTED:
        return kubectl("rollout", "restart", f"{_RESTARTED[owner.kind]}/{owner.name}", namespace=owner.namespace)
    return kubectl("delete", "pod", *pods, namespace=owner.namespace)


def edit(owner: Owner) -> str:
    """Opens what says how the Pods are made; Pods and Jobs cannot be changed, and show what to put right anew."""
    if owner.kind in ("Pod", "Job"):
        return kubectl("get", owner.kind.lower(), owner.name, "--output", "yaml", namespace=owner.namespace)
    return kubectl("edit", f"{owner.kind.lower()}/{owner.name}", namespace=owner.namespace)
