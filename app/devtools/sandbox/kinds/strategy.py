"""What a write means for each kind: decoding, defaults, the fields that only the server sets, validation.

Works on one object that the caller owns and may be changed in place. Order of the calls is that of `writes`.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from app.devtools.sandbox.api.call import copy_json
from app.devtools.sandbox.api.failures import bad_request
from app.devtools.sandbox.kinds.crds import begin_crd, check_crd, column_warnings
from app.devtools.sandbox.kinds.quality import quality_of_service
from app.devtools.sandbox.kinds.quotafaults import check_quota
from app.devtools.sandbox.schemas import schema as schemas
from app.devtools.sandbox.schemas.embedded import WrongShape, check_embedded, coerce_embedded
from app.devtools.sandbox.schemas.rules import check_rules
from app.devtools.sandbox.webhooks.registration import check_configuration
from app.kinds.defaults import apply_builtin_defaults
from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import check_metadata
from app.kinds.shapes import ShapeError, decode_builtin, decode_metadata
from app.kinds.validation import check_pod, check_pod_spec, check_pod_update

if TYPE_CHECKING:
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.wire import JSON

_STATUS_AT_BIRTH = frozenset({"Node", "CustomResourceDefinition"})
"""Kinds whose status may be given at creation; all others start with the server's."""
_PATH_NAMES = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})
_LABEL_NAMES = frozenset({"Namespace", "Service"})
_TEMPLATED = frozenset({"Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job"})
_WEBHOOKS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
_FREE_FINALIZERS = frozenset({"apiextensions.k8s.io", "coordination.k8s.io", "admissionregistration.k8s.io"})
_SERVER_METADATA = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


def decode(resource: ApiResource, obj: JSON, *, kind: str = "") -> tuple[JSON, list[str]]:
    """A fresh object of the resource's kind, and the paths of fields that it does not have.

    Raises StatusError 400 where kind or version are another's, or a field has a wrong type.
    """
    expected = kind or resource.kind
    given_kind, given_version = obj.get("kind") or expected, obj.get("apiVersion") or resource.api_version
    if given_kind != expected:
        raise bad_request(
            f'{given_kind} in version "{given_version}" cannot be handled as a {expected}: converting {given_kind} to '
            f"{expected}: unknown conversion"
        )
    if given_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({given_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    try:
        if resource.custom:
            decoded, unknown = _decode_custom(resource, obj)
        else:
            decoded, unknown = decode_builtin(expected, resource.version, obj, applied=False)
    except (ShapeError, WrongShape) as error:
        raise bad_request(str(error)) from error
    rest = {name: value for name, value in decoded.items() if name not in ("kind", "apiVersion", "metadata")}
    return {"kind": expected, "apiVersion": resource.api_version, "metadata": decoded["metadata"], **rest}, unknown


def _decode_custom(resource: ApiResource, obj: JSON) -> tuple[JSON, list[str]]:
    metadata, unknown = decode_metadata(resource.kind, resource.version, obj.get("metadata") or {})
    whole = {**obj, "metadata": metadata}
    if resource.schema is not None:
        unknown += schemas.unknown_fields(whole, resource.schema)
        whole = copy_json(schemas.prune(whole, resource.schema))
        if resource.embeds:
            prefix = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            whole, inner = coerce_embedded(whole, resource.schema, prefix)
            unknown += inner
    return whole, unknown


def default(resource: ApiResource, obj: JSON) -> JSON:
    """The object with the defaults of its kind."""
    if not resource.custom:
        apply_builtin_defaults(obj["kind"], obj)
        return obj
    return schemas.apply_defaults(obj, resource.schema) if resource.schema is not None else obj


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
    return column_warnings(obj) if resource.kind == "CustomResourceDefinition" else []


def unowned_fields(resource: ApiResource, subresource: str) -> frozenset[str]:
    """The top fields that a write to this endpoint resets, so that its writer does not come to own them."""
    if "status" not in resource.subresources:
        return frozenset()
    return frozenset({"f:spec"} if subresource == "status" else {"f:status"})


def begin_create(resource: ApiResource, obj: JSON) -> None:
    """Reset what a client may not set at creation."""
    metadata = obj["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"):
        metadata.pop(name, None)
    if resource.generation or resource.custom:
        metadata["generation"] = 1
    if "status" in resource.subresources and resource.kind not in _STATUS_AT_BIRTH:
        obj.pop("status", None)
        if not resource.custom:
            apply_builtin_defaults(obj["kind"], obj)
    match resource.kind:
        case "Pod":
            obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(obj["spec"])}
        case "Namespace":
            finalizers = obj["spec"].setdefault("finalizers", [])
            if "kubernetes" not in finalizers:
                finalizers.append("kubernetes")
            obj["status"] = {"phase": "Active"}
        case "CustomResourceDefinition":
            begin_crd(obj)
        case "Service":
            _allocate_address(obj["spec"])


def begin_update(resource: ApiResource, new: JSON, old: JSON, *, subresource: str) -> None:
    """Keep what this endpoint may not change, and count a change of the desired state."""
    after, before = new["metadata"], old["metadata"]
    after.pop("selfLink", None)
    for name in _SERVER_METADATA:
        if name in before:
            after[name] = before[name]
        else:
            after.pop(name, None)
    if subresource == "status":
        _keep_all_but_status(resource, new, old)
    elif subresource == "finalize":
        new["spec"] = {**old.get("spec", {}), "finalizers": (new.get("spec") or {}).get("finalizers") or []}
        if not new["spec"]["finalizers"]:
            del new["spec"]["finalizers"]
        new["status"] = old.get("status", {})
    else:
        _keep_what_others_write(resource, new, old)
    if "generation" in before and _desired(resource, new) != _desired(resource, old):
        after["generation"] = before["generation"] + 1


def _keep_what_others_write(resource: ApiResource, new: JSON, old: JSON) -> None:
    """An update of the object itself leaves its status alone, and what the server allotted."""
    if "status" in resource.subresources:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    if resource.kind == "Namespace":
        new["spec"] = old["spec"]
    if resource.kind == "Service":
        for name in ("clusterIP", "clusterIPs"):
            if name in old["spec"]:
                new["spec"].setdefault(name, old["spec"][name])


def _allocate_address(spec: JSON) -> None:
    """A cluster address for a Service that wants one; nothing listens there."""
    if spec.get("type") != "ExternalName":
        address = spec.setdefault("clusterIP", f"10.96.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}")
        spec.setdefault("clusterIPs", [address])


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
        return errors
    return errors + _check_body(resource, new, old)


def _check_common(resource: ApiResource, obj: JSON) -> list[FieldError]:
    rule = "path" if resource.kind in _PATH_NAMES else "label" if resource.kind in _LABEL_NAMES else "subdomain"
    free = resource.custom or resource.group in _FREE_FINALIZERS
    return check_metadata(obj["metadata"], namespaced=resource.namespaced, name_rule=rule, free_finalizers=free)


def _check_body(resource: ApiResource, obj: JSON, old: JSON | None) -> list[FieldError]:
    if resource.custom:
        return _check_custom(resource, obj, old)
    if resource.kind == "Pod":
        errors = check_pod(obj)
        return errors + check_pod_update(obj, old) if old is not None else errors
    if resource.kind in _TEMPLATED:
        return _check_template(resource, obj)
    if resource.kind == "CustomResourceDefinition":
        return check_crd(obj)
    if resource.kind in _WEBHOOKS:
        return check_configuration(obj)
    if resource.kind == "ResourceQuota":
        return check_quota(obj, old)
    if resource.kind in ("ConfigMap", "Secret") and old is not None and old.get("immutable"):
        return [
            FieldError(field, "Forbidden", "field is immutable when `immutable` is set")
            for field in ("data", "binaryData")
            if obj.get(field) != old.get(field)
        ]
    return []


def _check_custom(resource: ApiResource, obj: JSON, old: JSON | None) -> list[FieldError]:
    if resource.schema is None:
        return []
    faults = (
        schemas.validate(obj, resource.schema) if old is None else schemas.validate_update(obj, old, resource.schema)
    )
    if resource.embeds:
        faults += check_embedded(obj, resource.schema)
    if "scale" in resource.subresources:
        faults += _check_replicas(resource, obj)
    return faults + (check_rules(obj, old, resource.rules, faults) if resource.rules is not None else [])


def _check_replicas(resource: ApiResource, obj: JSON) -> list[FieldError]:
    """What the subresource `scale` needs of the fields that it shows."""
    errors: list[FieldError] = []
    for path in resource.scale[:2]:
        value = at_path(obj, path)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            found = {float: "float64", str: "string", bool: "bool", list: "[]interface {}"}.get(type(value))
            shown = value
            if isinstance(value, bool):
                shown = str(value).lower()
            elif isinstance(value, float) and value.is_integer():
                shown = int(value)
            text = (
                f".{path} accessor error: {shown} is of the type {found or 'map[string]interface {}'}, expected int64"
            )
            errors.append(FieldError(f".{path}", "Invalid", text, 0))
        elif value < 0:
            errors.append(FieldError(f".{path}", "Invalid", "should be a non-negative integer", value))
        elif value >= 2**31:
            errors.append(FieldError(f".{path}", "Invalid", f"should be less than or equal to {2**31 - 1}", value))
    return errors


def at_path(obj: JSON, path: str) -> Any:
    """The value at a path of fields joined by dots; None where there is none."""
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def set_path(obj: JSON, path: str, value: Any) -> None:
    *above, last = path.split(".")
    for name in above:
        obj = obj.setdefault(name, {})
    obj[last] = value


def _check_template(resource: ApiResource, obj: JSON) -> list[FieldError]:
    spec = obj["spec"]
    errors: list[FieldError] = []
    if resource.kind != "Job":
        selector = spec.get("selector")
        labels = spec["template"]["metadata"].get("labels") or {}
        if not selector:
            errors.append(FieldError("spec.selector", "Required"))
        elif any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
            text = "`selector` does not match template `labels`"
            errors.append(FieldError("spec.template.metadata.labels", "Invalid", text, labels))
    return errors + check_pod_spec(spec["template"]["spec"], "spec.template.spec")


def _keep_all_but_status(resource: ApiResource, new: JSON, old: JSON) -> None:
    for name in list(new):
        if name not in ("kind", "apiVersion", "metadata", "status"):
            del new[name]
    for name, value in old.items():
        if name not in ("kind", "apiVersion", "metadata", "status"):
            new[name] = value
    if resource.custom:
        kept = {name: value for name, value in old["metadata"].items() if name != "managedFields"}
        changed = {
            name: new["metadata"][name] for name in ("managedFields", "resourceVersion") if name in new["metadata"]
        }
        new["metadata"] = {**kept, **changed}


def _desired(resource: ApiResource, obj: JSON) -> JSON:
    hidden = {"metadata", "apiVersion"}
    if "status" in resource.subresources:
        hidden.add("status")
    return {name: value for name, value in obj.items() if name not in hidden}
