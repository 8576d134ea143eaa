"""ResourceSlices as they are kept, and the attributes of devices: the newest complete generation of each pool. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from app.claims.model import DEVICE_ID, PCI_BUS_ID, RESOURCE_NAME, DeviceKey
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


class Known(NamedTuple):
    """What a slice says of a device; `node` is that of the slice, "" for one of no single node."""

    attributes: Attributes
    node: str


class Pools:
    """The devices of pools. A generation counts when all of its slices are there, as the driver announced them.

    During an update the older generation counts until the newer one is complete.
    """

    def __init__(self, slices: Iterable[Slice]) -> None:
        generations: dict[tuple[str, str], dict[int, list[Slice]]] = {}
        for resource_slice in sorted(slices, key=lambda resource_slice: resource_slice.name):
            generations.setdefault((resource_slice.driver, resource_slice.pool), {}).setdefault(
                resource_slice.generation, []
            ).append(resource_slice)
        self._slices = {pool: _newest(by_number) for pool, by_number in generations.items()}

    def find(self, device: DeviceKey) -> Known | None:
        """None for a device that its pool does not have, and of a pool without a complete generation."""
        for resource_slice in self._slices.get((device.driver, device.pool), ()):
            if (attributes := resource_slice.devices.get(device.device)) is not None:
                return Known(attributes, resource_slice.node)
        return None


def _attributes(attributes: JSON) -> Attributes:
    texts = ((attributes.get(name) or {}).get("string") or "" for name in (DEVICE_ID, RESOURCE_NAME, PCI_BUS_ID))
    return Attributes(*texts)


def _newest(generations: Mapping[int, list[Slice]]) -> list[Slice]:
    """Those of the newest complete generation, the last by name first."""
    complete = [
        number
        for number, slices in generations.items()
        if len(slices) >= max(resource_slice.slices for resource_slice in slices)
    ]
    if not complete:
        return []
    return generations[max(complete)][::-1]
