"""Validation of what drivers and others report of an allocated device, in the API server's words. Pure.

The rules are those of `status.devices` in resource.k8s.io/v1 (KEP-4817).
"""

from __future__ import annotations

from app.devtools.sandbox.kinds.conditions import check_conditions
from app.devtools.sandbox.kinds.devicenames import bounded, check_driver, check_pool, check_share, too_long
from app.devtools.sandbox.kinds.deviceselectors import check_object
from app.devtools.sandbox.kinds.interfaceaddresses import interface_address_faults
from app.kinds.fielderrors import Field
from app.kinds.name_syntax import label_faults
from app.wire import JSON

_MOST_CONDITIONS = 8
_MOST_OF_DATA = 10 * 1024
_MOST_OF_INTERFACE = 256
_MOST_OF_HARDWARE = 128
_MOST_ADDRESSES = 16


def identity(device: JSON) -> JSON:
    """Which device an allocation result or a status entry is about, as messages print it."""
    names = {"Driver": "driver", "Pool": "pool", "Device": "device", "ShareID": "shareID"}
    return {shown: device.get(name) or "" for shown, name in names.items()}


def check_device_entry(device: Field, allocated: list[JSON]) -> None:
    """One entry; `allocated` are the identities of the claim's devices."""
    check_driver(device, "driver")
    check_pool(device, "pool")
    device.syntax("device", label_faults)
    if "shareID" in device.value:
        check_share(device, "shareID")
    if (one := identity(device.value)) not in allocated:
        device.fault("", "Invalid", "must be an allocated device in the claim", one)
    bounded(device, "conditions", _MOST_CONDITIONS, declared=False)
    check_conditions(device)
    check_object(device, "data", _MOST_OF_DATA, required=False)
    network = device.below("networkData")
    with network.declared():
        too_long(network, "interfaceName", _MOST_OF_INTERFACE)
    if bounded(network, "ips", _MOST_ADDRESSES):
        network.texts("ips", interface_address_faults)
        with network.declared():
            seen: set[str] = set()
            for here, address in network.entries("ips"):
                network.unique(here, address, seen)
    with network.declared():
        too_long(network, "hardwareAddress", _MOST_OF_HARDWARE)
