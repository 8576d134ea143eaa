"""Finds the Pods in manifests: Pods themselves and the templates of everything that makes Pods.

Objects of kinds that the webhook reads are set aside for its caches; what is none of these is left out with a note.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from app.appwrappers.model import APP_WRAPPERS
from app.errors import UsageError
from app.explain.model import Manifest, PodManifest
from app.kube.documents import Document, unfold
from app.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES
from app.registry import kinds_of
from app.wire import JSON
from app.workloads import tenant_pods

TEMPLATES = {kind: tuple(path.split(".")[:-1]) for (_, kind), path in tenant_pods.TEMPLATES.items()}
"""Where each kind keeps the Pod that it makes."""
_DEVICES = (DEVICE_CLASSES.kind, RESOURCE_SLICES.kind)
_CLAIMS = (RESOURCE_CLAIMS.kind, RESOURCE_CLAIM_TEMPLATES.kind)
_GROUPS: dict[str, tuple[str, ...]] = {
    **{kind: (group,) for group, kind in tenant_pods.TEMPLATES},
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet"), ("apps", "extensions")),
    **dict.fromkeys(("ConfigMap", "Namespace", "Node"), ("",)),
    "NetworkAttachmentDefinition": ("k8s.cni.cncf.io",),
    APP_WRAPPERS.kind: (APP_WRAPPERS.group,),
    **dict.fromkeys((*_DEVICES, *_CLAIMS), (DEVICE_CLASSES.group,)),
}
"""The API groups in which a kind is the one meant here; other groups have kinds of the same names."""
_UNPLACED = ("Namespace", "Node", *_DEVICES)
_READ = frozenset(resource.kind for resource in kinds_of("webhook"))


@dataclass(slots=True)
class Manifests:
    """What a set of documents holds, in their order; `notes` says what was left out and why."""

    pods: list[PodManifest] = field(default_factory=list)
    wrappers: list[Manifest] = field(default_factory=list)
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
            _sort(found, place, obj, namespace=namespace or "default")
    return found


def _sort(found: Manifests, place: str, obj: JSON, *, namespace: str) -> None:
    kind, metadata = str(obj["kind"]), _mapping(obj.get("metadata"))
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    home = str(metadata.get("namespace") or namespace)
    version, groups = obj.get("apiVersion"), _GROUPS.get(kind)
    given = Manifest(place, kind, name, home, _present(obj))
    if groups and isinstance(version, str) and version and version.rpartition("/")[0] not in groups:
        found.notes.append(f"{place}: {kind} {name or '(no name)'} of {version} is not understood; left out")
    elif kind in TEMPLATES:
        found.pods.append(PodManifest(given, _pod(obj, place=place, name=name, namespace=home)))
    elif kind == APP_WRAPPERS.kind:
        found.wrappers.append(given)
    elif kind in _READ or kind in ("ConfigMap", *_CLAIMS, *_UNPLACED):
        # A ConfigMap without a namespace is taken for one of the webhook's.
        home = str(metadata.get("namespace") or "") if kind == "ConfigMap" else home
        found.others.append({**obj, "metadata": metadata if kind in _UNPLACED else {**metadata, "namespace": home}})
    else:
        found.notes.append(f"{place}: {kind} {name or '(no name)'} makes no Pod; left out")


def _pod(obj: JSON, *, place: str, name: str, namespace: str) -> JSON:
    path = TEMPLATES[obj["kind"]]
    template: Any = obj
    for member in path:
        template = _mapping(template).get(member)
    if not isinstance(template, dict):
        raise UsageError(f"{place}: {obj['kind']} {name or '(no name)'} has no {'.'.join(path)}")
    # The API server fills the namespace in before it asks a webhook.
    metadata = {**_mapping(template.get("metadata")), "namespace": namespace}
    if path:
        metadata = {"generateName": f"{name}-", **metadata}
        template = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": template.get("spec")}
    pod: JSON = _present({**template, "metadata": metadata})
    return pod


def _present(value: Any) -> Any:
    """A copy without the members that are null: the API server drops them before it asks a webhook."""
    if isinstance(value, dict):
        return {key: _present(member) for key, member in value.items() if member is not None}
    return [_present(item) for item in value] if isinstance(value, list) else value


def _mapping(value: object) -> JSON:
    return value if isinstance(value, dict) else {}
