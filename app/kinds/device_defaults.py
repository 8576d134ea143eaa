"""Defaults of resource.k8s.io/v1 and of EndpointSlices, and which of their lists are absent or null where empty.

`defaults` applies them by the names of types.
"""

from __future__ import annotations

from collections.abc import Callable

from app.wire import JSON

BY_TYPE: dict[str, JSON] = {
    "ResourceClaim": {"spec": {}, "status": {}},
    "ResourceClaimSpec": {"devices": {}},
    "DeviceClaim": {"requests": None},
    "DeviceRequest": {"name": ""},
    "ExactDeviceRequest": {"deviceClassName": "", "allocationMode": "ExactCount"},
    "DeviceSubRequest": {"name": "", "deviceClassName": "", "allocationMode": "ExactCount"},
    "DeviceToleration": {"operator": "Equal"},
    "AllocationResult": {"devices": {}},
    "AllocatedDeviceStatus": {"driver": "", "pool": "", "device": "", "conditions": None},
    "ResourceClaimConsumerReference": {"resource": "", "name": "", "uid": ""},
    "Condition": {"message": ""},
    "ResourceClaimTemplate": {"spec": {}},
    "ResourceClaimTemplateSpec": {"metadata": {}, "spec": {}},
    "DeviceClass": {"spec": {}},
    "ResourceSlice": {"spec": {}},
    "ResourceSliceSpec": {"driver": "", "pool": {}},
    "CounterSet": {"name": ""},
    "DeviceCounterConsumption": {"counterSet": ""},
    "ResourcePool": {"name": "", "generation": 0, "resourceSliceCount": 0},
    "DeviceCapacity": {"value": "0"},
    "Counter": {"value": "0"},
    "EndpointSlice": {"addressType": "", "endpoints": None, "ports": None},
    "Endpoint": {"addresses": None, "conditions": {}},
    "EndpointPort": {"name": "", "protocol": "TCP"},
    "ForZone": {"name": ""},
    "ForNode": {"name": ""},
}
"""Fields that are filled in where they are missing; None is a list that is shown as null where it is empty."""


def drop_empty(holder: JSON, *names: str) -> None:
    """Empty lists, maps and values of variables are absent, as everywhere in the API."""
    for name in names:
        if name in holder and not holder[name]:
            del holder[name]


def _without_empty(*names: str) -> Callable[[JSON], None]:
    """An empty list or map of these fields is absent."""
    return lambda obj: drop_empty(obj, *names)


def _null_empty(*names: str) -> Callable[[JSON], None]:
    """An empty list of these fields is null."""

    def rewrite(obj: JSON) -> None:
        for name in names:
            obj[name] = obj[name] or None

    return rewrite


def _device_count(request: JSON) -> JSON:
    return {"count": 1} if request["allocationMode"] == "ExactCount" else {}


def _device_claim(devices: JSON) -> None:
    devices["requests"] = devices["requests"] or None
    drop_empty(devices, "constraints", "config")


def _device_request(request: JSON) -> None:
    """A count of 0 is one that is not given."""
    if request.get("count") == 0:
        del request["count"]
    request.update(_device_count(request) if "count" not in request else {})
    drop_empty(request, "selectors", "tolerations")


DERIVED: dict[str, Callable[[JSON], JSON]] = {"ExactDeviceRequest": _device_count, "DeviceSubRequest": _device_count}
"""Defaults that depend on other fields."""
REWRITTEN: dict[str, Callable[[JSON], None]] = {
    "ExactDeviceRequest": _device_request,
    "DeviceSubRequest": _device_request,
    "DeviceClaim": _device_claim,
    "DeviceClassSpec": _without_empty("selectors", "config"),
    "ResourceClaimStatus": _without_empty("reservedFor", "devices"),
    "DeviceAllocationResult": _without_empty("results", "config"),
    "PodStatus": _without_empty("resourceClaimStatuses"),
    "NetworkDeviceData": _without_empty("ips"),
    "Device": _without_empty("attributes", "capacity", "taints", "consumesCounters"),
    "AllocatedDeviceStatus": _null_empty("conditions"),
    "EndpointSlice": _null_empty("endpoints", "ports"),
    "Endpoint": _null_empty("addresses"),
}
"""Defaults that change a field that is there."""
