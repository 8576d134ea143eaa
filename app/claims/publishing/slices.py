"""The attributes of devices, out of the newest complete generation of each pool. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.claims.model import DeviceKey
from app.claims.stored.slices import Attributes, Slice


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
