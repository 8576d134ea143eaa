"""The devices that a node has, out of ResourceSlices. Pure.

Of each pool the newest generation counts, and only where all its slices are there. Left out are devices whose capacity
or counters are shared: the stand-in allocates whole devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from app.claims.model import DeviceKey
from app.devtools.sandbox.standins.placement import matches_selector
from app.wire import JSON

Value = str | int | bool


@dataclass(frozen=True, slots=True)
class Device:
    """`attributes` by their whole names. `selector` has the nodes of a device that is not of one node, None for all.

    `local` is true of a device of one node.
    """

    key: DeviceKey
    attributes: Mapping[str, Value]
    capacity: Mapping[str, str]
    taints: tuple[JSON, ...]
    local: bool
    selector: JSON | None


def devices_of(slices: Iterable[JSON], node: JSON) -> list[Device]:
    """The devices that a Pod on the node can have, pool after pool in the order of their names."""
    return [device for body in newest(slices) for device in _devices(body["spec"], node)]


def newest(slices: Iterable[JSON]) -> Iterator[JSON]:
    """The slices of the newest generation of each pool that is complete."""
    pools: dict[tuple[str, str], list[JSON]] = {}
    for body in sorted(slices, key=lambda one: str(one["metadata"]["name"])):
        pools.setdefault((body["spec"]["driver"], body["spec"]["pool"]["name"]), []).append(body)
    for _, members in sorted(pools.items()):
        generation = max(_generation(body) for body in members)
        current = [body for body in members if _generation(body) == generation]
        if len(current) == current[0]["spec"]["pool"].get("resourceSliceCount"):
            yield from current


def _generation(body: JSON) -> int:
    return int(body["spec"]["pool"].get("generation") or 0)


def _devices(spec: JSON, node: JSON) -> Iterator[Device]:
    for body in spec.get("devices") or ():
        where = body if spec.get("perDeviceNodeSelection") else spec
        if _is_on(where, node) and not (body.get("consumesCounters") or body.get("allowMultipleAllocations")):
            yield _device(spec, body, where)


def _is_on(where: JSON, node: JSON) -> bool:
    if where.get("allNodes"):
        return True
    if where.get("nodeSelector"):
        return matches_selector(where["nodeSelector"], node)
    return bool(where.get("nodeName") == node["metadata"]["name"])


def _device(spec: JSON, body: JSON, where: JSON) -> Device:
    driver = spec["driver"]
    return Device(
        key=DeviceKey(driver, spec["pool"]["name"], body["name"]),
        attributes={
            qualified(name, driver): next(iter(value.values()))
            for name, value in (body.get("attributes") or {}).items()
            if value
        },
        capacity={
            qualified(name, driver): str(one.get("value", "")) for name, one in (body.get("capacity") or {}).items()
        },
        taints=tuple(body.get("taints") or ()),
        local=bool(where.get("nodeName")),
        selector=where.get("nodeSelector"),
    )


def qualified(name: str, driver: str) -> str:
    """The whole name of an attribute: one without a domain is in that of its driver."""
    return name if "/" in name else f"{driver}/{name}"
