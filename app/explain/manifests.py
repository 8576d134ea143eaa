"""Finds the Pods in manifests: Pods themselves and the templates of everything that makes Pods. Pure.

Objects of kinds that the webhook reads are set aside for its caches; what is none of these is left out with a note.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from app.errors import UsageError
from app.kube.documents import Document, unfold
from app.registry import kinds_of
from app.wire import JSON

TEMPLATES: dict[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "ReplicationController": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where each kind keeps the Pod that it makes."""

_GROUPS: dict[str, tuple[str, ...]] = {
    "Pod": ("",),
    "PodTemplate": ("",),
    "ReplicationController": ("",),
    "ConfigMap": ("",),
    "Namespace": ("",),
    "Deployment": ("apps", "extensions"),
    "ReplicaSet": ("apps", "extensions"),
    "StatefulSet": ("apps",),
    "DaemonSet": ("apps", "extensions"),
    "Job": ("batch",),
    "CronJob": ("batch",),
    "NetworkAttachmentDefinition": ("k8s.cni.cncf.io",),
}
"""The API groups in which a kind is the one meant here; other groups have kinds of the same names."""

_READ = frozenset(resource.kind for resource in kinds_of("webhook"))
DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class PodManifest:
    """A Pod as the API server would be asked to create it, and the object it comes from."""

    place: str
    kind: str
    name: str
    namespace: str
    pod: JSON

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(slots=True)
class Manifests:
    """What a set of documents holds, in their order; `notes` says what was left out and why."""

    pods: list[PodManifest] = field(default_factory=list)
    others: list[JSON] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def of(self, kind: str) -> list[JSON]:
        """The objects of a kind that makes no Pod."""
        return [obj for obj in self.others if obj["kind"] == kind]


def sort_documents(documents: Iterable[Document], *, namespace: str = "") -> Manifests:
    """Objects without a namespace get `namespace`, or "default". Raises UsageError for an object without a kind."""
    found = Manifests()
    for document in documents:
        for place, obj in unfold(document.content, document.place):
            _sort(found, place, obj, namespace=namespace or DEFAULT_NAMESPACE)
    return found


def _sort(found: Manifests, place: str, obj: JSON, *, namespace: str) -> None:
    kind, metadata = str(obj["kind"]), _mapping(obj.get("metadata"))
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    home = str(metadata.get("namespace") or namespace)
    if not _is_meant(obj):
        found.notes.append(f"{place}: {kind} {name or '(no name)'} of {obj['apiVersion']} is not understood; left out")
    elif kind in TEMPLATES:
        pod = _pod(obj, TEMPLATES[kind], place=place, name=name, namespace=home)
        found.pods.append(PodManifest(place, kind, name, home, pod))
    elif kind == "ConfigMap":
        # Without a namespace it is taken for one of the webhook's.
        found.others.append({**obj, "metadata": {**metadata, "namespace": metadata.get("namespace") or ""}})
    elif kind == "Namespace":
        found.others.append({**obj, "metadata": metadata})
    elif kind in _READ:
        found.others.append({**obj, "metadata": {**metadata, "namespace": home}})
    else:
        found.notes.append(f"{place}: {kind} {name or '(no name)'} makes no Pod; left out")


def _is_meant(obj: JSON) -> bool:
    """Whether the group, where one is given, is the kind's own; True for unknown kinds, which the caller handles."""
    version, groups = obj.get("apiVersion"), _GROUPS.get(obj["kind"])
    return not groups or not isinstance(version, str) or not version or version.rpartition("/")[0] in groups


def _pod(obj: JSON, path: tuple[str, ...], *, place: str, name: str, namespace: str) -> JSON:
    pod: JSON
    if not path:
        pod = _present(obj)
        # The API server fills the namespace in before it asks a webhook.
        pod["metadata"] = {**_mapping(pod.get("metadata")), "namespace": namespace}
        return pod
    template: Any = obj
    for member in path:
        template = _mapping(template).get(member)
    if not isinstance(template, dict):
        raise UsageError(f"{place}: {obj['kind']} {name or '(no name)'} has no {'.'.join(path)}")
    metadata = {"generateName": f"{name}-", **_mapping(template.get("metadata")), "namespace": namespace}
    pod = _present({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")})
    return pod


def _present(value: Any) -> Any:
    """A copy without the members that are null: the API server drops them before it asks a webhook."""
    if isinstance(value, dict):
        return {key: _present(member) for key, member in value.items() if member is not None}
    return [_present(item) for item in value] if isinstance(value, list) else value


def _mapping(value: object) -> JSON:
    return value if isinstance(value, dict) else {}
