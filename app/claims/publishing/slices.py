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
        for one in sorted(slices, key=lambda one: one.name):
            generations.setdefault((one.driver, one.pool), {}).setdefault(one.generation, []).append(one)
        self._slices = {pool: _newest(found) for pool, found in generations.items()}

    def find(self, device: DeviceKey) -> Known | None:
        """None for a device that its pool does not have, and of a pool without a complete generation."""
        for one in self._slices.get((device.driver, device.pool), ()):
            if (attributes := one.devices.get(device.device)) is not None:
                return Known(attributes, one.node)
        return None


def _newest(generations: Mapping[int, list[Slice]]) -> list[Slice]:
    """Those of the newest complete generation, the last by name first."""
    complete = [number for number, found in generations.items() if len(found) >= max(one.slices for one in found)]
    if not complete:
        return []
    return generations[max(complete)][::-1]
