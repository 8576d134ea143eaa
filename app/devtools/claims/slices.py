"""Devices as a driver publishes them, with the attributes by which Multus finds them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.claims.model import DEVICE_ID, PCI_BUS_ID, RESOURCE_NAME
from app.kube.resources import RESOURCE_SLICES
from app.wire import JSON

_FUNCTIONS = 8


def virtual_functions(count: int, resource: str) -> list[JSON]:
    """Devices `vf-0`, `vf-1` … of one network card that serve a resource."""
    return [_device(number, resource) for number in range(count)]


def _device(number: int, resource: str) -> JSON:
    address = f"0000:03:{number // _FUNCTIONS:02x}.{number % _FUNCTIONS}"
    texts = {DEVICE_ID: address, RESOURCE_NAME: resource, PCI_BUS_ID: address}
    return {"name": f"vf-{number}", "attributes": {name: {"string": text} for name, text in texts.items()}}


def slice_of(driver: str, node: str, devices: Sequence[JSON], generation: int) -> JSON:
    """The slice with the devices of a node; the node is the pool."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices)}
    return RESOURCE_SLICES.body({"name": f"{node}-{driver}"}, spec=spec)
