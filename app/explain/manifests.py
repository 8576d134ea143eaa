"""Finds the Pods in manifests: Pods themselves and the templates of everything that makes Pods.

Objects of kinds that the webhook reads, checks or explains are set aside; of others the number is kept.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from app.appwrappers.model import APP_WRAPPERS
from app.explain.model import Finding, Manifest, PodManifest
from app.explain.reading import Source
from app.explain.templates import CLUSTER_SCOPED, attachments_of, components_of, makes_attachments, pod_templates
from app.kinds.shapes import ShapeError, decode_builtin
from app.kube.resources import (
    DEVICE_CLASSES,
    NETWORK_ATTACHMENTS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
    Resource,
)
from app.kube.versions import as_read
from app.networks.model import RESOURCE_NAME
from app.registry import REVIEWED as REVIEW_KINDS
from app.registry import kinds_of, reviews_of
from app.services.model import ASKING, SELECTOR
from app.text import closest
from app.wire import JSON, mapping
from app.workloads import tenant_pods
from app.workloads.model import UVS_RESOURCES, WORKLOADS

TEMPLATES = {kind: tuple(path.split(".")[:-1]) for (_, kind), path in tenant_pods.TEMPLATES.items()}
"""Where each kind keeps the Pod that it makes."""
_DEVICES = (DEVICE_CLASSES.kind, RESOURCE_SLICES.kind)
_CLAIMS = (RESOURCE_CLAIMS.kind, RESOURCE_CLAIM_TEMPLATES.kind)


def _reviewed() -> dict[str, Resource]:
    """The kinds that `/validate` judges as a whole, but for what makes Pods."""
    judged = (kind for kind, answer in REVIEW_KINDS.items() if answer == "validate")
    reviewed = {(rule.group, plural) for rule in reviews_of(*judged) for plural in rule.resources}
    custom = (*kinds_of("webhook"), *kinds_of("infra"), *kinds_of("tenant"), *kinds_of("rmd"), *UVS_RESOURCES)
    kinds = (*custom, DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
    return {resource.kind: resource for resource in kinds if (resource.group, resource.plural) in reviewed}


REVIEWED = _reviewed()
CHECKED = {kind: resource for kind, resource in REVIEWED.items() if resource.group != DEVICE_CLASSES.group}
"""The custom kinds among them."""
_GROUPS: dict[str, tuple[str, ...]] = {
    **{kind: (group,) for group, kind in tenant_pods.TEMPLATES},
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet"), ("apps", "extensions")),
    **dict.fromkeys(("ConfigMap", "Namespace", "Node", SERVICES.kind), ("",)),
    **{
        resource.kind: (resource.group,)
        for resource in (NETWORK_ATTACHMENTS, WORKLOADS, APP_WRAPPERS, *CHECKED.values())
    },
    **dict.fromkeys((*_DEVICES, *_CLAIMS), (DEVICE_CLASSES.group,)),
}
"""The API groups in which a kind is the one meant here; other groups have kinds of the same names."""
_UNPLACED = (
    "Namespace",
    "Node",
    *CLUSTER_SCOPED,
    *_DEVICES,
    *(kind for kind, resource in CHECKED.items() if not resource.namespaced),
)
_USED = frozenset(
    {
        *(resource.kind for resource in kinds_of("webhook")),
        *CHECKED,
        *(WORKLOADS.kind, "ConfigMap", "Namespace", "Node"),
        *_CLAIMS,
        *_DEVICES,
    }
)


def meant_kind(api_version: str, kind: str) -> str:
    """The kind, or the API version, that is probably meant by one that no API server has; "" where none is near."""
    group, groups = api_version.rpartition("/")[0], _GROUPS.get(kind)
    if groups is not None:
        near = closest(group, groups) if group else ""
        return "" if group in groups or not near else f"{near}/{api_version.rpartition('/')[2]}"
    return closest(kind, [name for name, homes in _GROUPS.items() if group in homes])


@dataclass(slots=True)
class Manifests:
    """What a set of objects holds, in their order.

    `given` are all of them, `others` those that are used and make no Pods, `makers` those of which operators make
    attachments, which are among `others`; `unused` counts the rest by kind. The first `notes` say which files were
    skipped.
    """

    given: list[Manifest] = field(default_factory=list)
    pods: list[PodManifest] = field(default_factory=list)
    wrappers: list[Manifest] = field(default_factory=list)
    others: list[Manifest] = field(default_factory=list)
    makers: list[Manifest] = field(default_factory=list)
    unused: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to explain, and nothing to check but for what configures Berth."""
        checked = {*REVIEWED, SERVICES.kind, WORKLOADS.kind}
        return not (
            self.pods or self.wrappers or self.findings or any(manifest.kind in checked for manifest in self.others)
        )

    def of(self, kind: str) -> list[JSON]:
        """The objects of a kind that makes no Pod."""
        return [manifest.obj for manifest in self.others if manifest.kind == kind]


def sort_objects(source: Source, *, namespace: str = "") -> Manifests:
    """What was read. Objects without a namespace get `namespace`, or "default"."""
    manifests = Manifests(notes=list(source.skipped))
    manifests.findings += [Finding("error", "UnreadableFile", fault) for fault in source.faults]
    for place, obj in source.objects:
        _sort(manifests, place, _versioned(_present(obj)), namespace=namespace or "default")
    _add_made(manifests)
    return manifests


def _sort(manifests: Manifests, place: str, obj: JSON, *, namespace: str) -> None:
    kind, metadata = str(obj["kind"]), mapping(obj.get("metadata"))
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    home = "" if kind in _UNPLACED else str(metadata.get("namespace") or namespace)
    version, foreign = str(obj.get("apiVersion") or ""), is_foreign(obj)
    given = Manifest(place, kind, name, home, obj)
    manifests.given.append(given)
    if not foreign and kind in TEMPLATES:
        _add_owner(manifests, given)
    elif not _set_aside(manifests, given, foreign=foreign):
        if kind == APP_WRAPPERS.kind and not foreign:
            manifests.wrappers.append(given)
            _add_components(manifests, given)
        if not _add_templates(manifests, given) and given not in manifests.wrappers[-1:]:
            manifests.unused[f"{kind}.{version.rpartition('/')[0]}" if foreign else kind] += 1


def _set_aside(manifests: Manifests, given: Manifest, *, foreign: bool) -> bool:
    """Whether the object is used, and makes no Pods."""
    kind, metadata = given.kind, mapping(given.obj.get("metadata"))
    if not foreign and (kind in _USED or _asks_for_network(given)):
        # A ConfigMap without a namespace is taken for one of the webhook's.
        home = str(metadata.get("namespace") or "") if kind == "ConfigMap" and not given.within else given.namespace
        metadata = metadata if kind in _UNPLACED else {**metadata, "namespace": home}
        manifests.others.append(replace(given, namespace=home, obj={**given.obj, "metadata": metadata}))
        return True
    if makes_attachments(given.obj):
        manifests.makers.append(given)
        return True
    return False


def _add_made(manifests: Manifests) -> None:
    """The attachments that operators would make of the objects in their namespaces."""
    homes: dict[str, JSON | None] = dict.fromkeys(pod.owner.namespace for pod in manifests.pods)
    homes |= dict.fromkeys(manifest.namespace for manifest in manifests.others if manifest.namespace)
    homes |= {
        str(obj["metadata"].get("name")): mapping(obj["metadata"].get("labels")) for obj in manifests.of("Namespace")
    }
    for given in manifests.makers:
        for obj, operator in attachments_of(given.obj, given.namespace, homes):
            made = Manifest(given.place, obj["kind"], given.name, obj["metadata"]["namespace"], obj, given.within)
            manifests.others.append(made)
            resource = obj["metadata"]["annotations"].get(RESOURCE_NAME, "none")
            taken = f"taken for {made.title} with resource {resource}, as {operator}"
            manifests.notes.append(f"{given.subject}: {taken}")


def _add_components(manifests: Manifests, wrapper: Manifest) -> None:
    """The objects that an AppWrapper creates beside its Pods, in its namespace."""
    for path, component in components_of(wrapper.obj):
        template = mapping(component.get("template"))
        kind = template.get("kind")
        if isinstance(kind, str) and kind not in TEMPLATES:
            obj = as_read(_versioned(template))
            name = str(mapping(obj.get("metadata")).get("name") or "")
            home = "" if kind in _UNPLACED else wrapper.namespace
            given = Manifest(wrapper.place, kind, name, home, obj, f"{path}.template")
            _set_aside(manifests, given, foreign=is_foreign(obj))


def is_foreign(obj: JSON) -> bool:
    """Whether the object is of another API group than the kind of its name that is meant here."""
    version, groups = str(obj.get("apiVersion") or ""), _GROUPS.get(str(obj.get("kind")))
    return bool(groups and version and version.rpartition("/")[0] not in groups)


def _asks_for_network(given: Manifest) -> bool:
    annotations = mapping(mapping(given.obj.get("metadata")).get("annotations"))
    return given.kind == SERVICES.kind and not {*ASKING, SELECTOR}.isdisjoint(annotations)


def _versioned(obj: JSON) -> JSON:
    """An object of a kind of ours that says no version is one of ours."""
    version, resource = obj.get("apiVersion"), CHECKED.get(obj["kind"])
    if isinstance(version, str) and version:
        return obj
    rest = {field: value for field, value in obj.items() if field != "apiVersion"}
    return {"apiVersion": resource.api_version, **rest} if resource else rest


def _add_owner(manifests: Manifests, given: Manifest) -> None:
    path = TEMPLATES[given.kind]
    template: Any = given.obj
    for member in path:
        template = mapping(template).get(member)
    if isinstance(template, dict):
        manifests.pods.append(PodManifest(given, _made(given, template) if path else _placed(given, template)))
    else:
        manifests.findings.append(Finding("error", "NoTemplate", "want a Pod template", given, ".".join(path)))


def _add_templates(manifests: Manifests, given: Manifest) -> int:
    """How many Pod templates an object of another kind has."""
    before = len(manifests.pods)
    try:
        manifests.pods += [
            PodManifest(given, _made(given, template), path) for path, template in pod_templates(given.obj)
        ]
    except ValueError as error:
        if given.kind != APP_WRAPPERS.kind:  # of AppWrappers the webhook says what is wrong
            manifests.findings.append(Finding("error", "NoTemplate", str(error), given))
        return 1
    return len(manifests.pods) - before


def _made(given: Manifest, template: JSON) -> JSON:
    """The Pod that is made of a template."""
    metadata = {"generateName": f"{given.name}-", **mapping(template.get("metadata"))}
    return _placed(given, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")})


def _placed(given: Manifest, pod: JSON) -> JSON:
    """With the namespace, which the API server fills in before it asks a webhook."""
    placed: JSON = _present({**pod, "metadata": {**mapping(pod.get("metadata")), "namespace": given.namespace}})
    return placed


def _present(value: Any) -> Any:
    """A copy without the members that are null: the API server drops them before it asks a webhook."""
    if isinstance(value, dict):
        return {key: _present(member) for key, member in value.items() if member is not None}
    return [_present(item) for item in value] if isinstance(value, list) else value


def as_defined(obj: JSON) -> JSON | None:
    """An object of a built-in kind as that defines it; None where it has a wrong type, of which there is a finding."""
    try:
        return decode_builtin(obj["kind"], "v1", obj)[0]
    except ShapeError:
        return None
