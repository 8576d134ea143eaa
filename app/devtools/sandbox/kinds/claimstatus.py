"""Validation of the status of ResourceClaims, in the API server's words, and what it keeps of devices. Pure.

The rules are those of resource.k8s.io/v1 with the gates of Kubernetes 1.36, the metadata aside. Who may write which
part is in `access.claimwrites`.
"""

from __future__ import annotations

from app.devtools.sandbox.kinds.claims import request_names
from app.devtools.sandbox.kinds.conditions import check_conditions
from app.devtools.sandbox.kinds.devicenames import (
    RequestNames,
    bounded,
    check_binding,
    check_driver,
    check_pool,
    check_reference,
    check_references,
    check_share,
    too_long,
)
from app.devtools.sandbox.kinds.deviceselectors import MOST_ENTRIES, check_object, check_opaque
from app.devtools.sandbox.kinds.interfaceaddresses import interface_address_faults
from app.kinds.fielderrors import Field, FieldError
from app.kinds.name_syntax import label_faults
from app.kinds.scheduling import check_node_selector
from app.wire import JSON

_MOST_CONSUMERS = 256
_MOST_CONDITIONS = 8
_MOST_OF_DATA = 10 * 1024
_MOST_OF_INTERFACE = 256
_MOST_OF_HARDWARE = 128
_MOST_ADDRESSES = 16


def identity(device: JSON) -> JSON:
    """Which device an allocation result or a status entry is about, as messages print it."""
    names = {"Driver": "driver", "Pool": "pool", "Device": "device", "ShareID": "shareID"}
    return {shown: device.get(name) or "" for shown, name in names.items()}


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
    _check_consumers(status, before, deleted=bool(new["metadata"].get("deletionTimestamp")))
    allocated = [identity(result) for result in _results(status.value)]
    for device in status.each("devices"):
        _check_device(device, allocated)
    seen: list[JSON] = []
    for here, device in status.entries("devices"):
        if (one := identity(device)) in seen:
            status.fault(here, "Duplicate", "", one)
        seen.append(one)
    if "allocation" in status.value and "allocation" in before:
        if status.value["allocation"] != before["allocation"]:
            status.fault("allocation", "Invalid", "field is immutable")
    elif "allocation" in status.value:
        _check_allocation(status.below("allocation"), request_names(new.get("spec") or {}))
    return status.errors


def _check_consumers(status: Field, before: JSON, *, deleted: bool) -> None:
    if bounded(status, "reservedFor", _MOST_CONSUMERS):
        seen: set[str] = set()
        for consumer in status.each("reservedFor"):
            for name in ("resource", "name", "uid"):
                consumer.required(name)
        for here, consumer in status.entries("reservedFor"):
            status.unique(here, consumer.get("uid") or "", seen)
    known = before.get("reservedFor") or []
    added = [consumer for consumer in status.value.get("reservedFor") or [] if consumer not in known]
    if status.value.get("reservedFor") and "allocation" not in status.value:
        status.fault("reservedFor", "Forbidden", "may not be specified when `allocated` is not set")
    elif added and deleted:
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        status.fault("reservedFor", "Forbidden", text)


def _check_device(device: Field, allocated: list[JSON]) -> None:
    """One entry of `devices`."""
    check_driver(device, "driver")
    check_pool(device, "pool")
    device.syntax("device", label_faults)
    if "shareID" in device.value:
        check_share(device, "shareID")
    if (one := identity(device.value)) not in allocated:
        device.fault("", "Invalid", "must be an allocated device in the claim", one)
    bounded(device, "conditions", _MOST_CONDITIONS)
    check_conditions(device)
    check_object(device, "data", _MOST_OF_DATA, required=False)
    network = device.below("networkData")
    too_long(network, "interfaceName", _MOST_OF_INTERFACE)
    too_long(network, "hardwareAddress", _MOST_OF_HARDWARE)
    if bounded(network, "ips", _MOST_ADDRESSES):
        network.texts("ips", interface_address_faults)
        seen: set[str] = set()
        for here, address in network.entries("ips"):
            network.unique(here, address, seen)


def _check_allocation(allocation: Field, known: RequestNames) -> None:
    devices = allocation.below("devices")
    if bounded(devices, "results", MOST_ENTRIES):
        for result in devices.each("results"):
            check_reference(result, "request", result.text("request"), known)
            check_driver(result, "driver")
            check_pool(result, "pool")
            result.syntax("device", label_faults)
            check_binding(result)
            if "shareID" in result.value:
                check_share(result, "shareID")
    if bounded(devices, "config", 2 * MOST_ENTRIES):
        for entry in devices.each("config"):
            if entry.required("source"):
                entry.one_of("source", ("FromClaim", "FromClass"))
            check_references(entry, known, most=MOST_ENTRIES)
            check_opaque(entry)
    for selector in allocation.present("nodeSelector"):
        check_node_selector(selector)
