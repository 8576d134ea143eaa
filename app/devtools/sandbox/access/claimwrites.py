"""Which parts of a ResourceClaim a writer may change, beyond its access to the resource.

As Kubernetes 1.36 decides it (gate DRAResourceClaimGranularStatusAuthorization): questions about resources that do not
exist, `resourceclaims/binding` and `resourceclaims/driver`; and the label of namespaces that may have administrators'
access to devices. What is refused is a fault of a field (422), not a refused request (403).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.devtools.sandbox.access.auth import NODE_NAME, Access, authorize, is_service_account
from app.devtools.sandbox.api.failures import StatusError
from app.devtools.sandbox.kinds.devicestatus import identity
from app.kinds.fielderrors import FieldError

if TYPE_CHECKING:
    from app.devtools.sandbox.access.auth import User
    from app.devtools.sandbox.api.call import Call
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

CLAIMS = ("resource.k8s.io", "resourceclaims")
_TEMPLATES = ("resource.k8s.io", "resourceclaimtemplates")
_ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_ADMIN_TEXT = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"


def claim_faults(state: ClusterState, call: Call, new: JSON, old: JSON | None) -> list[FieldError]:
    """What the writer may not have changed, or asked for, in a claim or template; nothing for other kinds."""
    if call.resource.key not in (CLAIMS, _TEMPLATES):
        return []
    if old is None:
        return _admin_faults(state, call, new)
    if call.resource.key == CLAIMS and call.subresource == "status":
        after, before = new.get("status") or {}, old.get("status") or {}
        return [
            *_admin_status_faults(state, call, after, before),
            *_binding_faults(state, call, after, before),
            *_driver_faults(state, call, after, before),
        ]
    return []


def _admin_faults(state: ClusterState, call: Call, new: JSON) -> list[FieldError]:
    spec, path = new.get("spec") or {}, "spec"
    if call.resource.key == _TEMPLATES:
        spec = spec.get("spec") or {}
    requests = (spec.get("devices") or {}).get("requests") or []
    asked = [index for index, one in enumerate(requests) if (one.get("exactly") or {}).get("adminAccess")]
    if not asked or _is_administered(state, call.namespace):
        return []
    # The server leaves `exactly` out of this path, and the outer `spec` of a template.
    return [FieldError(f"{path}.devices.requests[{asked[0]}].adminAccess", "Forbidden", _ADMIN_TEXT)]


def _admin_status_faults(state: ClusterState, call: Call, after: JSON, before: JSON) -> list[FieldError]:
    granted = [index for index, one in enumerate(_results(after)) if one.get("adminAccess")]
    known = any(one.get("adminAccess") for one in _results(before))
    if not granted or known or _is_administered(state, call.namespace):
        return []
    path = f"status.allocation.devices.results[{granted[0]}].adminAccess"
    return [FieldError(path, "Forbidden", _ADMIN_TEXT)]


def _results(status: JSON) -> list[JSON]:
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or []


def _is_administered(state: ClusterState, namespace: str) -> bool:
    found = state.storage.get(("", "namespaces"), "", namespace) or {"metadata": {}}
    return (found["metadata"].get("labels") or {}).get(_ADMIN_LABEL) == "true"


def _binding_faults(state: ClusterState, call: Call, after: JSON, before: JSON) -> list[FieldError]:
    """Allocating and reserving is for those who may so in the whole cluster: scheduler and controllers."""
    if all(after.get(field) == before.get(field) for field in ("allocation", "reservedFor")):
        return []
    refused = _refusal(state, call.user, Access(call.verb, *CLAIMS, "binding"))
    if not refused:
        return []
    text = (
        'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
        f'verb="{call.verb}" permission: {refused}'
    )
    return [FieldError("status.allocation", "Forbidden", text)]


def _driver_faults(state: ClusterState, call: Call, after: JSON, before: JSON) -> list[FieldError]:
    """The entries of a driver are for those who may act for it, on the claim's node or on any."""
    if "allocation" not in after:
        return []
    verbs = [f"arbitrary-node:{call.verb}"]
    node = _allocated_node(after["allocation"])
    if node and is_service_account(call.user.username) and list(call.user.extra.get(NODE_NAME, ())) == [node]:
        verbs.insert(0, f"associated-node:{call.verb}")
    faults = []
    for driver in _changed_drivers(after, before):
        asked = [Access(verb, *CLAIMS, "driver", call.namespace, driver) for verb in verbs]
        refused = [_refusal(state, call.user, access) for access in asked]
        if all(refused):
            text = (
                'changing status.devices requires resource="resourceclaims/driver", '
                f'verb="[{" ".join(verbs)}]" permission: {refused[0]}'
            )
            faults.append(FieldError("status.devices", "Forbidden", text))
    return faults


def _changed_drivers(after: JSON, before: JSON) -> list[str]:
    """The drivers with entries that are new, changed or gone."""
    old, new = before.get("devices") or [], after.get("devices") or []
    known = [(identity(entry), entry) for entry in old]
    kept = [identity(entry) for entry in new]
    changed = {entry["driver"] for entry in new if (identity(entry), entry) not in known and entry.get("driver")}
    changed |= {entry["driver"] for entry in old if identity(entry) not in kept}
    return sorted(changed)


def _allocated_node(allocation: JSON) -> str:
    """The one node that an allocation is for, by name; "" for any other selection."""
    match (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms"):
        case [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [str(name)]}], **rest}]:
            return "" if rest.get("matchExpressions") else name
    return ""


def _refusal(state: ClusterState, user: User, access: Access) -> str:
    """Why the user may not; "" where the user may."""
    try:
        authorize(state.authorizer, user, access)
    except StatusError as error:
        return str(error)
    return ""
