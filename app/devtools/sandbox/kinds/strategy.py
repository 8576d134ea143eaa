"""What a write makes of an object, for each kind: decoding, defaults, the fields that only the server sets.

Works on one object that the caller owns and may be changed in place. Order of the calls is that of `writes`. What the
server refuses is in `checks`, what follows from the schema of a custom resource in `custom`.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from app.devtools.sandbox.api.failures import bad_request
from app.devtools.sandbox.kinds.claimstatus import drop_deallocated
from app.devtools.sandbox.kinds.crds import begin_crd
from app.devtools.sandbox.kinds.custom import decode_custom, default_custom
from app.devtools.sandbox.kinds.endpointslices import drop_topology
from app.devtools.sandbox.kinds.slices import default_times, drop_disabled
from app.kinds.claims import prepare_claim
from app.kinds.defaults import apply_builtin_defaults
from app.kinds.jobs import generate_labels
from app.kinds.requests import fill_pod_level, quality_of_service
from app.kinds.shapes import ShapeError, decode_builtin
from app.text import stamp

if TYPE_CHECKING:
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.wire import JSON

_STATUS_AT_BIRTH = frozenset({"Node", "CustomResourceDefinition"})
"""Kinds whose status may be given at creation; all others start with the server's."""
_STATUS_ALONE = frozenset({"ResourceClaim"})
"""Built-in kinds whose metadata a write to their status leaves alone, as it is for custom resources."""
_SERVER_METADATA = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


def decode(resource: ApiResource, obj: JSON, *, kind: str = "") -> tuple[JSON, list[str]]:
    """An object of the resource's kind with metadata of its own, and the paths of fields that the kind does not have.

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
            decoded, unknown = decode_custom(resource, obj)
        else:
            decoded, unknown = decode_builtin(expected, resource.version, obj, applied=False)
    except ShapeError as error:
        raise bad_request(str(error)) from error
    rest = {name: value for name, value in decoded.items() if name not in ("kind", "apiVersion", "metadata")}
    return {"kind": expected, "apiVersion": resource.api_version, "metadata": decoded["metadata"], **rest}, unknown


def default(resource: ApiResource, obj: JSON) -> JSON:
    """The object with the defaults of its kind."""
    if not resource.custom:
        apply_builtin_defaults(obj["kind"], obj)
        if resource.kind == "ResourceSlice":
            default_times(obj, stamp())
        return obj
    return default_custom(resource, obj)


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
            _begin_pod(obj)
        case "Namespace":
            finalizers = obj["spec"].setdefault("finalizers", [])
            if "kubernetes" not in finalizers:
                finalizers.append("kubernetes")
            obj["status"] = {"phase": "Active"}
        case "CustomResourceDefinition":
            begin_crd(obj)
        case "Service" | "Job" | "PersistentVolumeClaim":
            _allot(obj)


def _begin_pod(pod: JSON) -> None:
    spec = pod["spec"]
    fill_pod_level(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}


def _allot(obj: JSON) -> None:
    """What the server gives an object that its author has not named."""
    if obj["kind"] == "Job":
        generate_labels(obj)
    elif obj["kind"] == "Service":
        _allocate_address(obj["spec"])
    else:
        prepare_claim(obj["spec"])
        obj["status"] = {"phase": "Pending"}


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


def settle(resource: ApiResource, new: JSON, old: JSON | None, *, subresource: str = "") -> None:
    """Remove what the server does not keep; the writer comes to own it nevertheless."""
    if resource.custom:
        return
    if resource.kind == "ResourceClaim" and old is not None and subresource == "status":
        drop_deallocated(new, old)
    elif resource.kind == "ResourceSlice":
        drop_disabled(new)
    elif resource.kind == "EndpointSlice":
        drop_topology(new)


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


def _keep_all_but_status(resource: ApiResource, new: JSON, old: JSON) -> None:
    for name in list(new):
        if name not in ("kind", "apiVersion", "metadata", "status"):
            del new[name]
    for name, value in old.items():
        if name not in ("kind", "apiVersion", "metadata", "status"):
            new[name] = value
    if resource.custom or resource.kind in _STATUS_ALONE:
        kept = {name: value for name, value in old["metadata"].items() if name != "managedFields"}
        changed = {
            name: new["metadata"][name] for name in ("managedFields", "resourceVersion") if name in new["metadata"]
        }
        new["metadata"] = {**kept, **changed}


def _desired(resource: ApiResource, obj: JSON) -> JSON:
    hidden = {"metadata", "apiVersion"}
    if "status" in resource.subresources:
        hidden.add("status")
    desired = {name: value for name, value in obj.items() if name not in hidden}
    if resource.kind == "EndpointSlice" and not resource.custom:
        desired["labels"] = obj["metadata"].get("labels") or {}
    return desired
