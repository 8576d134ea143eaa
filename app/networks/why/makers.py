"""Who makes a Pod, and the commands that change it there: Pods themselves are injected into once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.appwrappers.model import APP_WRAPPERS, of_admission
from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.kube.resources import JOBS, PODS, REPLICA_SETS, controller_of
from app.why.model import Asking, read
from app.wire import JSON, encode_json

_RESTARTED = ("Deployment", "StatefulSet", "DaemonSet")
_UNCHANGEABLE = {"Pod": ("^  nodeName:",), "Job": ("controller-uid:",), APP_WRAPPERS.kind: ()}
"""What cannot be changed, with the lines that one which is created anew does not have: its node is chosen again, and
the API server gives it another selector."""
_ABOVE = {"ReplicaSet": (REPLICA_SETS, ("Deployment",)), "Job": (JOBS, ("CronJob", APP_WRAPPERS.kind))}
"""Controllers that have one themselves, as a rule: their kind, and those of the others."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that created a Pod; for a Pod without a controller, the Pod itself.

    `fields` are JSON pointers to fields that one which is created anew does not have.
    """

    kind: str
    namespace: str
    name: str
    fields: tuple[str, ...] = ()

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
        """Opens what says how the Pods are made; a Pod or a Job cannot be changed, and is created anew."""
        if (without := _UNCHANGEABLE.get(self.kind)) is not None:
            kind = objects.plural(APP_WRAPPERS) if self.kind == APP_WRAPPERS.kind else self.kind.lower()
            return commands.rewrite(kind, self.name, namespace=self.namespace, without=without, fields=self.fields)
        return commands.kubectl("edit", f"{self.kind.lower()}/{self.name}", namespace=self.namespace)

    def change(self, how: str) -> str:
        """What is to be done with what `edit` opens; `how` begins with a verb."""
        if self.kind not in _UNCHANGEABLE:
            return how
        pods = "" if self.kind == PODS.kind else " with its Pods"
        return f"{how}: the command deletes the {self.kind}{pods}, and creates it again with that"

    @property
    def again(self) -> str:
        """What is to be done after `renew`; "" where the owner creates its Pods again."""
        return (
            "create it again after the command deletes it: it has no controller that does"
            if self.kind == PODS.kind
            else ""
        )

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
    controller = controller_of(metadata) or {"kind": PODS.kind, "name": metadata["name"]}
    kind, name = controller["kind"], controller["name"]
    # The ReplicaSet of a Deployment has its name; to read each is not needed.
    before, _, last = name.rpartition("-")
    if kind == REPLICA_SETS.kind and before and last == (metadata.get("labels") or {}).get("pod-template-hash"):
        kind, name = "Deployment", before
    return Owner(kind, metadata["namespace"], name)


async def topmost(cluster: Cluster, owner: Owner) -> Owner:
    """The Deployment of a ReplicaSet, the CronJob or the AppWrapper of a Job; every other owner itself.

    So does one that may not be read. An AppWrapper would create a Pod or a Job again as its components say.
    """
    if owner.kind in _ABOVE:
        resource, kinds = _ABOVE[owner.kind]
        controlled = await or_default(cluster.get(resource, owner.name, namespace=owner.namespace), None)
        above = controller_of((controlled or {}).get("metadata") or {})
        owner = Owner(above["kind"], owner.namespace, above["name"]) if above.get("kind") in kinds else owner
    if owner.kind != APP_WRAPPERS.kind:
        return owner
    wrapper = await or_default(cluster.get(APP_WRAPPERS, owner.name, namespace=owner.namespace), None)
    return replace(owner, fields=tuple(of_admission(objects.spec(wrapper))))


def maker_of(pod: JSON) -> Asking[Owner]:
    """The object that has to be changed so that the Pod changes."""
    owner = owner_of(pod)
    return (yield from read(lambda cluster: topmost(cluster, owner), key=owner))
