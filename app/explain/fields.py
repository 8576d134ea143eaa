"""What an API server would refuse or drop of the fields of manifests, whatever webhooks say. Pure.

Fields that a kind does not have, and values of another type than they want, are judged where fields are known: of
built-in kinds and Pod templates by the tables of `app.kinds`, of Berth's own kinds by their definitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from app.appwrappers.model import APP_WRAPPERS
from app.appwrappers.podsets.inference import inferred
from app.definitions import ALL, read_definitions
from app.explain.manifests import meant_kind
from app.explain.model import Finding, Manifest
from app.explain.templates import components_of, pod_templates
from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import check_metadata
from app.kinds.objects import NAMESPACED, check_new, name_rule
from app.kinds.shapes import ShapeError, decode_metadata, is_built_in, read_fields, type_of
from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.places import EITHER
from app.text import closest, cut
from app.wire import JSON, mapping
from app.workloads.templates.bounds import at
from app.workloads.webhook import OBJECTS, RULES

_VERSIONS: Mapping[str, frozenset[str]] = {
    "v1": frozenset({"Pod", "ConfigMap", "Secret", "Service", "ServiceAccount", "Namespace", "Node"}),
    "apps/v1": frozenset({"Deployment", "DaemonSet", "ReplicaSet", "StatefulSet"}),
    "batch/v1": frozenset({"Job", "CronJob"}),
    "resource.k8s.io/v1": frozenset({"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}),
}
"""Kinds that an author may leave without apiVersion, and those of devices."""
_JUDGED = NAMESPACED | {(version, kind) for version, kinds in _VERSIONS.items() for kind in kinds}
"""The built-in kinds whose fields are judged."""
_SERVED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "": {"v1": ("Pod", "ConfigMap", "Secret", "Service", "ServiceAccount", "Namespace", "Node", "PodTemplate",
                "ReplicationController", "Endpoints", "LimitRange", "ResourceQuota", "PersistentVolume",
                "PersistentVolumeClaim")},
    "apps": {"v1": ("Deployment", "DaemonSet", "ReplicaSet", "StatefulSet", "ControllerRevision")},
    "batch": {"v1": ("Job", "CronJob")},
    "resource.k8s.io": dict.fromkeys(("v1", "v1beta1", "v1beta2"), tuple(sorted(_VERSIONS["resource.k8s.io/v1"]))),
    "networking.k8s.io": {"v1": ("Ingress", "IngressClass", "NetworkPolicy")},
    "policy": {"v1": ("PodDisruptionBudget",)},
    "autoscaling": dict.fromkeys(("v2", "v1"), ("HorizontalPodAutoscaler",)),
    "discovery.k8s.io": {"v1": ("EndpointSlice",)},
    "rbac.authorization.k8s.io": {"v1": ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")},
    "apiextensions.k8s.io": {"v1": ("CustomResourceDefinition",)},
    "admissionregistration.k8s.io": {"v1": ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")},
    "certificates.k8s.io": {"v1": ("CertificateSigningRequest",)},
    "coordination.k8s.io": {"v1": ("Lease",)},
    "storage.k8s.io": {"v1": ("StorageClass", "VolumeAttachment", "CSIDriver", "CSINode", "CSIStorageCapacity")},
    "scheduling.k8s.io": {"v1": ("PriorityClass",)},
    "node.k8s.io": {"v1": ("RuntimeClass",)},
    NETWORK_ATTACHMENTS.group: {NETWORK_ATTACHMENTS.version: (NETWORK_ATTACHMENTS.kind,)},
}  # fmt: skip
"""By group and version, the first to be written: kinds of which Kubernetes 1.30 to 1.37 serve no other version.

Source: kubernetes.io, Deprecated API Migration Guide.
"""
_UNVERSIONED = frozenset[str]().union(*_VERSIONS.values())
"""Those of which an object without apiVersion is taken to be one."""
_OWN = {(_resource.api_version, _resource.kind): _resource for _resource in ALL}
_HOMES: dict[str, dict[str, list[str]]] = {}
"""By kind and group: the versions that are served."""
for _group, _versions in _SERVED.items():
    for _version, _kinds in _versions.items():
        for _kind in _kinds:
            _HOMES.setdefault(_kind, {}).setdefault(_group, []).append(_version)
for _one in ALL:
    _HOMES.setdefault(_one.kind, {}).setdefault(_one.group, []).append(_one.version)
_GROUPS = frozenset({"extensions", *_SERVED})
_ATTACHMENT: JSON = {"properties": {"spec": {"properties": {"config": {}}}}}
"""The definition of NetworkAttachmentDefinitions as Multus installs it."""
_CONFIGURATION = frozenset(
    {"config", "cniVersion", "type", "name", "plugins", "ipam", "master", "mode", "vlan", "bridge"}
)
"""What people write into `spec`, or beside it, that belongs into the configuration of the network."""
_NOT_SERVED = "no supported API server serves the kind in this version"
_MOST = 20
"""Findings of one object."""
_LONGEST = 200
"""Characters of a path or a fault."""


def field_findings(given: Manifest) -> Iterator[Finding]:
    """Errors: API servers refuse such fields where validation is strict, and drop them otherwise.

    Warnings in what only looks like a Pod template.
    """
    yield from islice(_of_object(given, given.obj, ""), _MOST)


def _of_object(given: Manifest, obj: Any, path: str) -> Iterator[Finding]:
    """Of an object that stands at a path in the one that was given."""
    if not isinstance(obj, dict):
        return
    kind, version = str(obj.get("kind")), str(obj.get("apiVersion") or "")
    if (version, kind) in _JUDGED or (not version and kind in _UNVERSIONED):
        yield from _of_type(given, type_of(version, kind), obj, path)
    elif (version, kind) in _OWN:
        yield from _of_own_kind(given, obj, path)
        for where, inner in objects_in(obj):
            yield from _of_object(given, inner, f"{path}{where}.")
    elif (version, kind) == (NETWORK_ATTACHMENTS.api_version, NETWORK_ATTACHMENTS.kind):
        yield from _of_attachment(given, obj, path)
    else:
        if meant := _served(version, kind):
            yield Finding("error", "UnknownVersion", _NOT_SERVED, given, f"{path}apiVersion", meant)
        elif meant := meant_kind(version, kind) if version and not is_unstored(obj) else "":
            field = f"{path}{'apiVersion' if '/' in meant else 'kind'}"
            yield Finding("error", "UnknownKind", "no API server has this kind", given, field, meant)
        yield from _of_foreign_kind(given, obj, path)


def _served(api_version: str, kind: str) -> str:
    """The API version to be written instead of one in which no API server has the kind; "" where one may have it."""
    group, _, version = api_version.rpartition("/")
    homes = _HOMES.get(kind, {})
    if not api_version or version in homes.get(group, ()):
        return ""
    elsewhere = not group or (group in _GROUPS and not homes.keys().isdisjoint(_SERVED))
    if not homes or not (group in homes or elsewhere):
        return ""
    home = group if group in homes else next(iter(homes))
    return f"{home}/{homes[home][0]}".lstrip("/")


def _of_foreign_kind(given: Manifest, obj: JSON, path: str) -> Iterator[Finding]:
    """Of what only looks like a Pod template, as that of a Knative Service, fields of others are no mistake."""
    try:
        for where, template in pod_templates(obj):
            for finding in _of_type(given, "PodTemplateSpec", template, f"{path}{where}."):
                if inferred(obj):
                    yield finding
                elif finding.meant:
                    yield replace(finding, severity="warning", message="no field of a Pod template")
    except ValueError:  # said where the Pods are looked for
        return


def objects_in(obj: JSON) -> Iterator[tuple[str, Any]]:
    """Whole objects in an object of a kind of ours, with their paths."""
    kind = (str(obj.get("apiVersion")).rpartition("/")[0], str(obj.get("kind")))
    if kind in RULES:
        template = at(obj, "spec.template")
        yield "spec.template", {"apiVersion": "v1", "kind": "Pod", **template} if isinstance(template, dict) else None
    elif kind in OBJECTS:
        yield "spec.object", at(obj, "spec.object")
    elif kind == (APP_WRAPPERS.group, APP_WRAPPERS.kind):
        for path, component in components_of(obj):
            yield f"{path}.template", component.get("template")


def _of_type(given: Manifest, kind: str, obj: JSON, path: str) -> Iterator[Finding]:
    unknown, wrong = read_fields(kind, obj)
    for field, names in unknown.items():
        yield _unknown(given, path + field, names)
    if wrong is not None:
        yield Finding("error", "WrongType", cut(wrong.fault, _LONGEST), given, cut(path + wrong.field, _LONGEST))


def _of_attachment(given: Manifest, obj: JSON, path: str) -> Iterator[Finding]:
    """Of what its definition has not, much is meant for the configuration, which is JSON in a text."""
    if isinstance(metadata := obj.get("metadata"), dict):
        yield from _of_type(given, "ObjectMeta", metadata, f"{path}metadata.")
    for field, names in _pruned(_ATTACHMENT, obj, ""):
        name = field.rpartition(".")[2]
        finding = _unknown(given, path + field, names)
        if name in _CONFIGURATION:
            meant = "spec.config" if name == "config" else f"{name} in the JSON of spec.config"
            finding = replace(finding, meant=meant)
        yield finding


def _of_own_kind(given: Manifest, obj: JSON, path: str) -> Iterator[Finding]:
    if isinstance(metadata := obj.get("metadata"), dict):
        yield from _of_type(given, "ObjectMeta", metadata, f"{path}metadata.")
    resource = _OWN[obj["apiVersion"], obj["kind"]]
    (definition,) = read_definitions([resource])
    versions = {version["name"]: version["schema"]["openAPIV3Schema"] for version in definition["spec"]["versions"]}
    for field, names in _pruned(versions[resource.version], obj, ""):
        yield _unknown(given, path + field, names)


def _pruned(schema: JSON, value: Any, path: str) -> Iterator[tuple[str, Collection[str]]]:
    """What a structural schema prunes, each with the fields that are known there."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _pruned(schema.get("items") or {}, item, f"{path}[{index}]")
    elif isinstance(value, dict) and (fields := schema.get("properties")):
        members = fields if path else {**fields, "apiVersion": {}, "kind": {}, "metadata": {}}
        for name, item in value.items():
            here = f"{path}.{name}" if path else name
            if name in members:
                yield from _pruned(members[name], item, here)
            elif not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield here, members.keys()


def _unknown(given: Manifest, field: str, names: Collection[str]) -> Finding:
    home, dot, name = field.rpartition(".")
    beside = name in EITHER and "metadata" in names
    meant = f"{home}{dot}metadata.{name}" if beside else closest(name, names)
    message = "unknown field: the API server refuses or drops it"
    return Finding("error", "UnknownField", message, given, cut(field, _LONGEST), meant)


_UNSTORED = frozenset(
    {
        "admission.k8s.io",
        "audit.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "client.authentication.k8s.io",
        "kind.x-k8s.io",
        "kubeadm.k8s.io",
    }
)


def is_unstored(obj: JSON) -> bool:
    """Whether no API server keeps objects of the kind: reviews, and what programs read as their configuration."""
    group, _, _ = str(obj.get("apiVersion") or "").rpartition("/")
    if not group:
        return obj.get("kind") == "Config" and "clusters" in obj  # a kubeconfig
    return group in _UNSTORED or "config" in group.split(".")


def refusal_findings(given: Manifest) -> Iterator[Finding]:
    """Errors of built-in kinds that `app.kinds` checks, and of the metadata of all other kinds.

    An object with a uid is left out: an API server has stored it, and it may have what none takes of a new one.
    """
    if given.within or mapping(given.obj.get("metadata")).get("uid") or is_unstored(given.obj):
        return
    for error in islice(_errors(given), _MOST):
        yield Finding("error", "Invalid", cut(error.body, _LONGEST), given, cut(error.field, _LONGEST))


def _errors(given: Manifest) -> Iterator[FieldError]:
    version = str(given.obj.get("apiVersion") or "")
    group, _, own = version.rpartition("/")
    metadata = mapping(given.obj.get("metadata"))
    if metadata.get("generateName") and not metadata.get("name"):
        metadata = {**metadata, "name": "given"}
    try:
        if (version, given.kind) in NAMESPACED:
            yield from check_new(given.kind, own, {**given.obj, "metadata": metadata})[0]
            return
        metadata, _ = decode_metadata(given.kind, own, metadata)
    except ShapeError:  # `field_findings` tells of wrong types
        return
    rule = name_rule(given.kind) if is_built_in(group) else "subdomain"
    yield from check_metadata(metadata, namespaced=True, name_rule=rule, free_finalizers=True)
