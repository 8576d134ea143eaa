"""Validation of whole built-in objects by kind, with the messages of the API server. Pure.

Takes an object that `shapes` decoded and `defaults` completed: the `stringData` of a Secret is in `data` by then.
`name_syntax.check_metadata` checks the metadata.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping

from app.kinds import defaults, shapes
from app.kinds.claims import check_claim
from app.kinds.fielderrors import Field, FieldError, invalid
from app.kinds.ingresses import check_ingress
from app.kinds.jobs import check_cron_job, check_job
from app.kinds.name_syntax import check_metadata, key_faults, qualified_faults
from app.kinds.resources import check_autoscaler, check_container_name, check_resource_name, overcommits
from app.kinds.validation import check_pod
from app.kinds.workloads import (
    check_daemon_set,
    check_deployment,
    check_pod_template,
    check_replica_set,
    check_replication_controller,
    check_stateful_set,
)
from app.kube.quantity import parse
from app.wire import JSON

_DATA_LIMIT = 1024 * 1024
_DATA_TEXT = f"may not be more than {_DATA_LIMIT} bytes"
_ACCOUNT = "kubernetes.io/service-account.name"


_ENDS = re.compile(r"[.\[]")
"""What follows the path of a field in those of the fields below it."""
_LABEL_NAMES = frozenset({"Namespace", "Service", "StatefulSet"})
_PATH_NAMES = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "PodDisruptionBudget"})
_LIMIT_TYPES = frozenset({"Pod", "Container", "PersistentVolumeClaim"})
_ORDERED_BOUNDS = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)
"""What may not be more than what, and the field of the fault."""
_BOUND_NAMES = {
    "min": "min value",
    "max": "max value",
    "default": "default value",
    "defaultRequest": "default request value",
}
_POD_BOUNDS = ("min", "max", "maxLimitRequestRatio")
_ALL_BOUNDS = (*_POD_BOUNDS, "default", "defaultRequest")


def check_written(
    kind: str, version: str, written: JSON, *, kept: tuple[str, ...]
) -> tuple[list[FieldError], list[str]]:
    """As `check_new`, for an object of whose metadata only the fields `kept` will be used.

    Without `name` among them it gets one.
    """
    metadata = written.get("metadata")
    if metadata is None or isinstance(metadata, dict):
        unused = shapes.fields_of("ObjectMeta").keys() - set(kept)
        given = {} if "name" in kept else {"name": "template"}
        metadata = {field: value for field, value in (metadata or {}).items() if field not in unused} | given
    return check_new(kind, version, {**written, "metadata": metadata})


def check_new(kind: str, version: str, written: JSON) -> tuple[list[FieldError], list[str]]:
    """The faults of an object that is to be created in a namespace, and the paths of unknown fields.

    Of kinds without a row in `CHECKS` these are the faults of types and metadata alone.

    It has no `metadata.uid` yet. What is wrong only where a field is unknown is left out: a value may be valid because
    of what a newer API server knows. Raises ShapeError.
    """
    decoded, unknown = shapes.decode_builtin(kind, version, written)
    shape = shapes.type_of(written.get("apiVersion"), kind)
    defaults.apply_builtin_defaults(shape, decoded)
    metadata = check_metadata(decoded["metadata"], namespaced=True, name_rule=name_rule(kind), free_finalizers=False)
    above = {field[: end.start()] for field in unknown for end in _ENDS.finditer(field)}
    return [error for error in metadata + check_object(shape, decoded) if error.field not in above], unknown


def name_rule(kind: str) -> str:
    """The rule for names of a built-in kind, as `check_metadata` calls it."""
    return "label" if kind in _LABEL_NAMES else "path" if kind in _PATH_NAMES else "subdomain"


def check_object(kind: str, obj: JSON) -> list[FieldError]:
    """All faults of an object that is to be created, but for those of its metadata; none of a kind not in `CHECKS`."""
    whole = Field(obj)
    if check := CHECKS.get(kind):
        check(whole)
    return whole.errors


def _check_pod(whole: Field) -> None:
    whole.errors += check_pod(whole.value)
    if whole.below("spec").value.get("ephemeralContainers"):
        whole.fault("spec.ephemeralContainers", "Forbidden", "cannot be set on create")


def _check_config_map(whole: Field) -> None:
    text, binary = whole.value.get("data") or {}, whole.value.get("binaryData") or {}
    for key in text:
        _check_key(whole, "data", key)
        if key in binary:
            whole.fault(f"data[{key}]", "Invalid", "duplicate of key present in binaryData", key)
    for key in binary:
        _check_key(whole, "binaryData", key)
    if sum(len(value.encode()) for value in text.values()) + _length(binary) > _DATA_LIMIT:
        whole.fault("data", "TooLong", _DATA_TEXT)


def _check_secret(whole: Field) -> None:
    data, kind = whole.value.get("data") or {}, whole.value.get("type") or "Opaque"
    for key in data:
        _check_key(whole, "data", key)
    if _length(data) > _DATA_LIMIT:
        whole.fault("data", "TooLong", _DATA_TEXT)
    missing: list[str] = []
    match kind:
        case "kubernetes.io/service-account-token" if not whole.below("metadata").below("annotations").text(_ACCOUNT):
            whole.fault(f"metadata.annotations[{_ACCOUNT}]", "Required")
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson":
            missing = _check_json(whole, f".{kind.removeprefix('kubernetes.io/')}")
        case "kubernetes.io/basic-auth" if not data.keys() & {"username", "password"}:
            missing = ["username", "password"]
        case "kubernetes.io/ssh-auth" if not data.get("ssh-privatekey"):
            missing = ["ssh-privatekey"]
        case "kubernetes.io/tls":
            missing = [key for key in ("tls.crt", "tls.key") if key not in data]
    for key in missing:
        whole.fault(f"data[{key}]", "Required")


def _check_revision(whole: Field) -> None:
    whole.number("revision", 0, "must be greater than or equal to 0")
    if not isinstance(whole.value.get("data"), dict):
        whole.fault("data", "Required", "data must be a valid JSON object")


def _check_json(whole: Field, key: str) -> list[str]:
    """The key, where it is missing."""
    data = whole.value.get("data") or {}
    if key not in data:
        return [key]
    try:
        # As Go reads it: bytes that are no UTF-8 and halves of surrogate pairs are replaced.
        decoded = json.loads(base64.b64decode(data[key]).decode(errors="replace"))
        is_object = decoded is None or isinstance(decoded, dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        whole.fault(f"data[{key}]", "Invalid", "must be a JSON object", "<secret contents redacted>")
    return []


def _check_key(whole: Field, field: str, key: str) -> None:
    whole.errors += invalid(f"{field}[{key}]", key, key_faults(key))


def _length(data: JSON) -> int:
    """Bytes behind the values, which are canonical base64."""
    return sum(len(encoded) // 4 * 3 - encoded[-2:].count("=") for encoded in data.values())


def _check_limit_range(whole: Field) -> None:
    """The limits of each type once; no bound contradicts another. As `ValidateLimitRange` of Kubernetes 1.37."""
    seen: set[str] = set()
    for limit in whole.below("spec").each("limits"):
        kind = limit.text("type")
        faults = qualified_faults(kind)
        if not faults and "/" not in kind and kind not in _LIMIT_TYPES:
            faults = ["must be a standard limit type or fully qualified"]
        limit.errors += invalid(limit.at("type"), kind, faults)
        limit.unique("type", kind, seen)
        for field in ("default", "defaultRequest") if kind == "Pod" else ():
            if limit.value.get(field):
                limit.fault(field, "Forbidden", "may not be specified when `type` is 'Pod'")
        if kind == "PersistentVolumeClaim" and not any(
            "storage" in (limit.value.get(end) or {}) for end in _POD_BOUNDS[:2]
        ):
            text = "either minimum or maximum storage value is required, but neither was provided"
            limit.fault("limits", "Required", text)
        _check_amounts(limit, _POD_BOUNDS if kind == "Pod" else _ALL_BOUNDS)


def _check_amounts(limit: Field, fields: tuple[str, ...]) -> None:
    check_name = check_container_name if limit.text("type") in ("Pod", "Container") else check_resource_name
    amounts = {field: {name: parse(text) for name, text in (limit.value.get(field) or {}).items()} for field in fields}
    for field, bounds in amounts.items():
        for name in bounds:
            check_name(limit, f"{field}[{name}]", name)
    for name in sorted({name for bounds in amounts.values() for name in bounds}):
        values = {field: bounds[name] for field, bounds in amounts.items() if name in bounds}
        shown = {field: limit.value[field][name] for field in values}
        for lower, upper, at in _ORDERED_BOUNDS:
            if lower in values and upper in values and values[lower] > values[upper]:
                text = f"{_BOUND_NAMES[lower]} {shown[lower]} is greater than {_BOUND_NAMES[upper]} {shown[upper]}"
                limit.fault(f"{at}[{name}]", "Invalid", text, shown[at])
        ratio = values.get("maxLimitRequestRatio")
        at = f"maxLimitRequestRatio[{name}]"
        if ratio is not None and ratio < 1:
            limit.fault(at, "Invalid", f"ratio {shown['maxLimitRequestRatio']} is less than 1", str(ratio))
        if ratio is not None and values.get("min") and "max" in values and ratio > values["max"] / values["min"]:
            text = f"ratio {shown['maxLimitRequestRatio']} is greater than max/min = {values['max'] / values['min']:f}"
            limit.fault(at, "Invalid", text, shown["maxLimitRequestRatio"])
        same = (
            values.get("default") == values.get("defaultRequest") or not {"default", "defaultRequest"} <= values.keys()
        )
        if not overcommits(name) and not same:
            text = f"default value must equal to defaultRequest value in {name}"
            limit.fault(f"defaultRequest[{name}]", "Invalid", text, shown["defaultRequest"])


CHECKS: Mapping[str, Callable[[Field], None]] = {
    "Pod": _check_pod,
    "Deployment": check_deployment,
    "ReplicaSet": check_replica_set,
    "StatefulSet": check_stateful_set,
    "DaemonSet": check_daemon_set,
    "Job": check_job,
    "CronJob": check_cron_job,
    "Secret": _check_secret,
    "ConfigMap": _check_config_map,
    "PersistentVolumeClaim": check_claim,
    "ReplicationController": check_replication_controller,
    "PodTemplate": check_pod_template,
    "ControllerRevision": _check_revision,
    "LimitRange": _check_limit_range,
    "Ingress": check_ingress,
    "HorizontalPodAutoscaler": check_autoscaler,
    "autoscaling.v1.HorizontalPodAutoscaler": check_autoscaler,
}
"""What is checked of each kind beside its metadata."""

_NAMESPACED = {
    "v1": (
        "ConfigMap", "Endpoints", "Event", "LimitRange", "PersistentVolumeClaim", "Pod", "PodTemplate",
        "ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount",
    ),
    "apps/v1": ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "autoscaling/v1": ("HorizontalPodAutoscaler",),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "batch/v1": ("CronJob", "Job"),
    "certificates.k8s.io/v1": ("PodCertificateRequest",),
    "coordination.k8s.io/v1": ("Lease",),
    "discovery.k8s.io/v1": ("EndpointSlice",),
    "events.k8s.io/v1": ("Event",),
    "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
    "policy/v1": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io/v1": ("Role", "RoleBinding"),
    "resource.k8s.io/v1": ("ResourceClaim", "ResourceClaimTemplate"),
    "storage.k8s.io/v1": ("CSIStorageCapacity",),
}  # fmt: skip
NAMESPACED = frozenset((version, kind) for version, kinds in _NAMESPACED.items() for kind in kinds)
"""API version and kind of the objects in namespaces whose fields `shapes` has."""
