"""Who makes a Pod, and the commands that change it there: Pods themselves are injected into once."""

from __future__ import annotations

from dataclasses import dataclass

from app.doctor import commands
from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.kube.resources import REPLICA_SETS, controller_of
from app.wire import JSON, encode_json

_RESTARTED = ("Deployment", "StatefulSet", "DaemonSet")


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that created a Pod; for a Pod without a controller, the Pod itself."""

    kind: str
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def is_restarted(self) -> bool:
        """Whether it replaces its Pods where it is changed."""
        return self.kind in _RESTARTED

    def renew(self, pods: list[str]) -> str:
        """Recreates the Pods, one after the other where the owner can do that: only new Pods are injected into."""
        if self.is_restarted:
            return commands.kubectl("rollout", "restart", f"{self.kind.lower()}/{self.name}", namespace=self.namespace)
        return commands.kubectl("delete", "pod", *pods, namespace=self.namespace)

    def edit(self) -> str:
        """Opens what says how the Pods are made; a Pod or a Job cannot be changed, and is shown."""
        if self.kind in ("Pod", "Job"):
            return commands.kubectl("get", self.kind.lower(), self.name, "--output", "yaml", namespace=self.namespace)
        return commands.kubectl("edit", f"{self.kind.lower()}/{self.name}", namespace=self.namespace)

    def select(self, annotation: str, value: str) -> str:
        """Writes an annotation of its Pods, where it says how they are made and can be changed; else `edit`."""
        if not self.is_restarted:
            return self.edit()
        return self._patch_template({"annotations": {annotation: value}})

    def _patch_template(self, metadata: JSON) -> str:
        patch = encode_json({"spec": {"template": {"metadata": metadata}}}).decode()
        words = (f"{self.kind.lower()}/{self.name}", "--type=merge", f"--patch={patch}")
        return commands.kubectl("patch", *words, namespace=self.namespace)


def owner_of(pod: JSON) -> Owner:
    metadata = pod["metadata"]
    controller = controller_of(metadata) or {"kind": "Pod", "name": metadata["name"]}
    return Owner(controller["kind"], metadata["namespace"], controller["name"])


async def topmost(cluster: Cluster, owner: Owner) -> Owner:
    """The Deployment of a ReplicaSet; every other owner stands for itself, and a ReplicaSet that may not be read."""
    if owner.kind != "ReplicaSet":
        return owner
    replica_set = await or_default(cluster.get(REPLICA_SETS, owner.name, namespace=owner.namespace), None)
    above = controller_of((replica_set or {}).get("metadata") or {})
    return Owner("Deployment", owner.namespace, above["name"]) if above.get("kind") == "Deployment" else owner
