"""What is kept of ResourceSlices. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from app.claims.model import DEVICE_ID, PCI_BUS_ID, RESOURCE_NAME
from app.wire import JSON


class Attributes(msgspec.Struct, frozen=True):
    """The attributes of a device that say which it is; "" for one that it does not have as a string."""

    device_id: str = ""
    resource_name: str = ""
    pci_bus_id: str = ""


@dataclass(frozen=True, slots=True)
class Slice:
    """A ResourceSlice; its pool has `slices` of them in this generation. `node` is "" for devices of no single node."""

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
    node: str
    devices: Mapping[str, Attributes]


def stored_slice(obj: JSON) -> Slice:
    spec = obj["spec"]
    pool = spec["pool"]
    return Slice(
        name=obj["metadata"]["name"],
        driver=spec["driver"],
        pool=pool["name"],
        generation=pool.get("generation", 0),
        slices=pool.get("resourceSliceCount", 0),
        node=spec.get("nodeName") or "",
        devices={device["name"]: _attributes(device.get("attributes") or {}) for device in spec.get("devices") or ()},
    )


def _attributes(attributes: JSON) -> Attributes:
    texts = ((attributes.get(name) or {}).get("string") or "" for name in (DEVICE_ID, RESOURCE_NAME, PCI_BUS_ID))
    return Attributes(*texts)
