"""Pods by what created them, as findings name them: Pods of one owner with the same trouble are one finding."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.kube.owners import controller_of
from app.kube.resources import REPLICA_SETS
from app.text import several
from app.wire import JSON

_RESTARTED = ("Deployment", "StatefulSet", "DaemonSet")
T = TypeVar("T")
MOST = 200
"""Owners with a finding of their own, for each thing that their Pods lack."""
_SHOWN = 5
_NAMES = 50
"""Names kept of the Pods of one owner: for a command that deletes them, where the owner cannot be restarted."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that created a Pod; for a Pod without a controller, the Pod itself."""

    kind: str
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def renew(self, pods: list[str]) -> str:
        """Recreates the Pods, one after the other where the owner can do that: only new Pods are injected into."""
        if self.kind in _RESTARTED:
            return commands.kubectl("rollout", "restart", f"{self.kind.lower()}/{self.name}", namespace=self.namespace)
        return commands.kubectl("delete", "pod", *pods, namespace=self.namespace)

    def edit(self) -> str:
        """Opens what says how the Pods are made; a Pod or a Job cannot be changed, and is shown."""
        if self.kind in ("Pod", "Job"):
            return commands.kubectl("get", self.kind.lower(), self.name, "--output", "yaml", namespace=self.namespace)
        return commands.kubectl("edit", f"{self.kind.lower()}/{self.name}", namespace=self.namespace)


@dataclass(slots=True)
class Group:
    """Pods of one owner that lack the same; some names, and how many of them are older than Berth."""

    pods: int = 0
    older: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, pod: JSON, since: datetime | None = None) -> None:
        """Count it in; `since` is when Berth was registered."""
        self.pods += 1
        when = objects.created(pod)
        self.older += since is not None and when is not None and when < since
        if len(self.names) < _NAMES:
            self.names.append(pod["metadata"]["name"])

    def of(self, owner: Owner) -> str:
        """The beginning of what is said of these Pods, below their owner; "" for a Pod that owns itself."""
        if owner.kind == "Pod":
            return ""
        names = ("" if self.pods <= _SHOWN else "such as ") + ", ".join(self.names[:_SHOWN])
        return f"{several(self.pods, 'Pod')} of it ({names}) "

    def history(self, since: datetime | None) -> str:
        """Why, as far as dates show."""
        if since is None:
            return ""
        if self.older == self.pods:
            return f": created before Berth was registered ({since:%Y-%m-%d %H:%M} UTC)"
        if self.older:
            return f": {self.older} of {self.pods} were created before Berth was registered"
        why = "(it was away, or its registration left the Pod out), or what the Pod needs was changed later"
        return f": created after Berth was registered, so it was not asked {why}"


@dataclass(slots=True)
class Groups(Generic[T]):
    """Pods by their owner and what they lack; `beyond` counts those of further owners."""

    found: dict[tuple[Owner, T], Group] = field(default_factory=dict)
    beyond: int = 0

    def add(self, pod: JSON, lack: T, since: datetime | None = None) -> None:
        key = (_owner_of(pod), lack)
        if key in self.found or len(self.found) < MOST:
            self.found.setdefault(key, Group()).add(pod, since)
        else:
            self.beyond += 1


def _owner_of(pod: JSON) -> Owner:
    metadata = pod["metadata"]
    found = controller_of(metadata) or {"kind": "Pod", "name": metadata["name"]}
    return Owner(found["kind"], metadata["namespace"], found["name"])


async def topmost(cluster: Cluster, owner: Owner) -> Owner:
    """The Deployment of a ReplicaSet; every other owner stands for itself, and a ReplicaSet that may not be read."""
    if owner.kind != "ReplicaSet":
        return owner
    found = await or_default(cluster.get(REPLICA_SETS, owner.name, namespace=owner.namespace), None)
    above = controller_of((found or {}).get("metadata") or {})
    return Owner("Deployment", owner.namespace, above["name"]) if above.get("kind") == "Deployment" else owner
