"""What the API server finds wrong with an object that is written, for each kind, and what it warns of. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.devtools.sandbox.kinds.crdcheck import check_crd, column_warnings
from app.devtools.sandbox.kinds.custom import check_custom
from app.devtools.sandbox.kinds.devicechecks import (
    DEVICE_GROUPS,
    check_device_kind,
    check_device_status,
    device_warnings,
)
from app.devtools.sandbox.kinds.quotafaults import check_quota
from app.devtools.sandbox.webhooks.registration import check_configuration
from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import check_metadata
from app.kinds.objects import check_object, name_rule
from app.kinds.validation import check_pod, check_pod_update

if TYPE_CHECKING:
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.wire import JSON

_WEBHOOKS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
_FREE_FINALIZERS = frozenset({"apiextensions.k8s.io", "coordination.k8s.io", "admissionregistration.k8s.io"})
_VERSION_REQUIRED = frozenset({
    "CustomResourceDefinition", "Lease", "MutatingWebhookConfiguration", "PodDisruptionBudget",
    "ValidatingWebhookConfiguration",
})  # fmt: skip
"""Built-in kinds whose updates have to name the version that they were made from."""


def check_create(resource: ApiResource, obj: JSON) -> list[FieldError]:
    """All faults of a new object."""
    return _check_common(resource, obj) + _check_body(resource, obj, None)


def check_update(resource: ApiResource, new: JSON, old: JSON, *, subresource: str) -> list[FieldError]:
    """All faults of a changed object, including changes of what must not change."""
    errors = _check_common(resource, new)
    if old["metadata"].get("deletionTimestamp"):
        added = [
            name
            for name in new["metadata"].get("finalizers") or []
            if name not in (old["metadata"].get("finalizers") or [])
        ]
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            text = "no new finalizers can be added if the object is being deleted, found new finalizers "
            text += f"[]string{{{shown}}}"
            errors.append(FieldError("metadata.finalizers", "Forbidden", text))
    if subresource == "status" and not resource.custom:
        return errors + _check_phase(resource, new) + check_device_status(resource, new, old)
    if subresource == "ephemeralcontainers" and new["spec"] != old["spec"]:
        text = "the sandbox runs no containers, so there is none to debug"
        return [*errors, FieldError("spec.ephemeralContainers", "Forbidden", text)]
    return errors + _check_body(resource, new, old)


def _check_phase(resource: ApiResource, obj: JSON) -> list[FieldError]:
    """Of a namespace, which goes with its deletion alone."""
    deleted = "deletionTimestamp" in obj["metadata"]
    phase, wanted = (obj.get("status") or {}).get("phase", ""), "Terminating" if deleted else "Active"
    if resource.kind != "Namespace" or phase == wanted:
        return []
    text = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if deleted else ''}empty"
    return [FieldError("status.Phase", "Invalid", text, phase)]


def check_base(resource: ApiResource, metadata: JSON) -> list[FieldError]:
    """The fault of an update that has to name the version that it was made from, and does not."""
    if metadata.get("resourceVersion") or not (resource.custom or resource.kind in _VERSION_REQUIRED):
        return []
    return [FieldError("metadata.resourceVersion", "Invalid", "must be specified for an update", 0)]


def check_uid(metadata: JSON, old: JSON) -> list[FieldError]:
    """The fault of an update that names another object's uid."""
    uid = metadata.get("uid")
    same = not uid or uid == old["metadata"]["uid"]
    return [] if same else [FieldError("metadata.uid", "Invalid", "field is immutable", uid)]


def warnings(resource: ApiResource, obj: JSON) -> list[str]:
    """What the writer should know of an object that is accepted."""
    if resource.custom:
        plain = [name for name in obj["metadata"].get("finalizers") or [] if "/" not in name]
        return [
            f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name'
            f"{' including a path (/)' if '.' in name else ''} to avoid accidental conflicts with other finalizer "
            "writers"
            for name in plain
        ]
    if resource.group in DEVICE_GROUPS:
        return device_warnings(resource, obj)
    return column_warnings(obj) if resource.kind == "CustomResourceDefinition" else []


def _check_common(resource: ApiResource, obj: JSON) -> list[FieldError]:
    rule = "subdomain" if resource.custom else name_rule(resource.kind)
    free = resource.custom or resource.group in _FREE_FINALIZERS
    return check_metadata(obj["metadata"], namespaced=resource.namespaced, name_rule=rule, free_finalizers=free)


def _check_body(resource: ApiResource, obj: JSON, old: JSON | None) -> list[FieldError]:
    if resource.custom:
        return check_custom(resource, obj, old)
    if resource.kind == "Pod" and old is not None:
        return check_pod(obj) + check_pod_update(obj, old)
    errors = check_object(resource.kind, obj)
    if resource.kind in ("ConfigMap", "Secret") and old is not None and old.get("immutable"):
        return errors + [
            FieldError(field, "Forbidden", "field is immutable when `immutable` is set")
            for field in ("data", "binaryData")
            if obj.get(field) != old.get(field)
        ]
    if resource.group in DEVICE_GROUPS:
        return check_device_kind(resource, obj, old)
    if resource.kind == "CustomResourceDefinition":
        return check_crd(obj)
    if resource.kind in _WEBHOOKS:
        return check_configuration(obj)
    if resource.kind == "ResourceQuota":
        return check_quota(obj, old)
    return errors
