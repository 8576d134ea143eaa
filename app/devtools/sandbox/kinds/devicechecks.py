"""The checks of kinds of resource.k8s.io and discovery.k8s.io by kind, with what an update of them must not change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.devtools.sandbox.kinds.claims import check_claim, check_class, check_template
from app.devtools.sandbox.kinds.claimstatus import check_claim_status
from app.devtools.sandbox.kinds.devicenames import immutable
from app.devtools.sandbox.kinds.endpointslices import check_endpoint_slice, endpoint_warnings
from app.devtools.sandbox.kinds.podclaims import check_pod_claims
from app.devtools.sandbox.kinds.slices import check_slice, slice_warnings
from app.kinds.fielderrors import Field, FieldError

if TYPE_CHECKING:
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.wire import JSON

DEVICE_GROUPS = frozenset({"resource.k8s.io", "discovery.k8s.io"})


def check_device_kind(resource: ApiResource, obj: JSON, old: JSON | None) -> list[FieldError]:
    """All faults of an object of these groups, its metadata aside."""
    return _ordered(_check_kind(resource, obj, old))


def _check_kind(resource: ApiResource, obj: JSON, old: JSON | None) -> list[FieldError]:
    match resource.kind:
        case "ResourceClaim":
            return check_claim(obj) if old is None else _check_claim_update(obj, old)
        case "ResourceClaimTemplate":
            return check_template(obj) if old is None else _check_fixed(obj, old)
        case "DeviceClass":
            return check_class(obj)
        case "ResourceSlice":
            return check_slice(obj, old)
        case "EndpointSlice":
            return check_endpoint_slice(obj, old)
    return []


def _ordered(errors: list[FieldError]) -> list[FieldError]:
    return sorted(errors, key=lambda error: error.declared)


def _check_claim_update(obj: JSON, old: JSON) -> list[FieldError]:
    whole = Field(obj)
    if obj.get("spec") != old.get("spec"):
        immutable(whole, "spec")
    return whole.errors


def _check_fixed(obj: JSON, old: JSON) -> list[FieldError]:
    whole = Field(obj)
    if obj.get("spec") != old.get("spec"):
        whole.fault("spec", "Invalid", "field is immutable")
    return whole.errors


def check_device_status(resource: ApiResource, new: JSON, old: JSON) -> list[FieldError]:
    """All faults of a new status of a ResourceClaim, and of what a Pod's status says about its claims."""
    if resource.kind == "ResourceClaim":
        return _ordered(check_claim_status(new, old))
    return check_pod_claims(new) if resource.kind == "Pod" else []


def device_warnings(resource: ApiResource, obj: JSON) -> list[str]:
    """What the writer of an object of these groups should know."""
    if resource.kind == "ResourceSlice":
        return slice_warnings(obj)
    return endpoint_warnings(obj) if resource.kind == "EndpointSlice" else []
