"""Validation of the status of ResourceClaims, in the API server's words, and what it keeps of devices. Pure.

The rules are those of resource.k8s.io/v1 with the gates of Kubernetes 1.36, the metadata aside. Who may write which
part is in `access.claimwrites`.
"""

from __future__ import annotations

from app.devtools.sandbox.kinds.claimallocation import check_allocation
from app.devtools.sandbox.kinds.devicelists import check_unique
from app.devtools.sandbox.kinds.devicenames import bounded, immutable
from app.devtools.sandbox.kinds.devicestatus import check_device_entry, identity
from app.kinds.fielderrors import Field, FieldError
from app.wire import JSON

_MOST_CONSUMERS = 256


def drop_deallocated(new: JSON, old: JSON) -> None:
    """Remove entries of devices that were allocated and are no more, as the API server does on its own."""
    status = new.get("status") or {}
    left = [identity(result) for result in _results(status)]
    gone = [one for result in _results(old.get("status") or {}) if (one := identity(result)) not in left]
    kept = [device for device in status.get("devices") or [] if identity(device) not in gone]
    if kept:
        status["devices"] = kept
    else:
        status.pop("devices", None)


def _results(status: JSON) -> list[JSON]:
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or []


def check_claim_status(new: JSON, old: JSON) -> list[FieldError]:
    """All faults of a claim's new status."""
    status, before = Field(new.get("status") or {}, "status"), old.get("status") or {}
    fixed = "allocation" in status.value and "allocation" in before
    if fixed and status.value["allocation"] != before["allocation"]:
        immutable(status, "allocation", "field cannot be modified once set")
    _check_consumers(status, before, deleted=bool(new["metadata"].get("deletionTimestamp")))
    allocated = [identity(result) for result in _results(status.value)]
    check_unique(status, "devices", "driver", "device", "pool", "shareID")
    for device in status.each("devices"):
        check_device_entry(device, allocated)
    if "allocation" in status.value and not fixed:
        check_allocation(status.below("allocation"), new.get("spec") or {})
    return status.errors


def _check_consumers(status: Field, before: JSON, *, deleted: bool) -> None:
    if bounded(status, "reservedFor", _MOST_CONSUMERS):
        check_unique(status, "reservedFor", "uid")
        for consumer in status.each("reservedFor"):
            for name in ("resource", "name", "uid"):
                consumer.required(name)
    known = before.get("reservedFor") or []
    added = [consumer for consumer in status.value.get("reservedFor") or [] if consumer not in known]
    if status.value.get("reservedFor") and "allocation" not in status.value:
        status.fault("reservedFor", "Forbidden", "may not be specified when `allocated` is not set")
    elif added and deleted:
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        status.fault("reservedFor", "Forbidden", text)
