"""Devices as the verdicts on claims count them: those of classes and requests, who has them, and their taints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from app.claims.model import device_key
from app.claims.roads import devices_of
from app.claims.slices import Pools, stored_slice
from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from app.wire import JSON

DEVICE_TAINT_RULES = tuple(
    Resource("resource.k8s.io", version, "devicetaintrules", "DeviceTaintRule", namespaced=False)
    for version in ("v1", "v1beta2", "v1alpha3")
)
"""The kind in the versions of Kubernetes 1.37, 1.36 and before, the newest first."""
Device = dict[str, Any]
"""A device of a ResourceSlice, with its `driver`, `pool` and `node`."""
Place = tuple[str, str, str]
"""Driver, pool and name of a device."""


def place_of(device: Device) -> Place:
    """Which one it is."""
    return device["driver"], device["pool"], device["name"]


def requested(device_class: JSON, request: JSON, slices: Iterable[JSON]) -> list[Device]:
    """The devices that a class and the selectors of a request for it select."""
    own = (device_class.get("spec") or {}).get("selectors") or []
    return devices_of({"spec": {"selectors": [*own, *(request.get("selectors") or ())]}}, slices)


def reach(devices: Iterable[Device]) -> int:
    """How many of them one Pod can have: those of one node, with those of none."""
    nodes = Counter(device["node"] for device in devices)
    anywhere = nodes.pop("", 0)
    return anywhere + max(nodes.values(), default=0)


async def holders(cluster: Cluster) -> dict[Place, str]:
    """The claim, NAMESPACE/NAME, of each device that is allocated. Raises ApiError where claims may not be listed."""
    held: dict[Place, str] = {}
    async for obj in cluster.paged(RESOURCE_CLAIMS):
        for result in results_of(obj):
            if not result.get("adminAccess") and not result.get("shareID"):
                driver, pool, device, _ = device_key(result)
                held[driver, pool, device] = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
    return held


async def pools(cluster: Cluster) -> Pools:
    """The devices of all ResourceSlices."""
    return Pools([stored_slice(obj) for obj in await cluster.listed(RESOURCE_SLICES)])


async def tainted(cluster: Cluster) -> dict[Place, Device]:
    """The devices with taints of their drivers. Raises ApiError where slices may not be listed."""
    devices = requested({}, {}, await cluster.listed(RESOURCE_SLICES))
    return {place_of(device): device for device in devices if device.get("taints")}


async def taint_rules(cluster: Cluster) -> list[JSON]:
    """The DeviceTaintRules; none where the API server has no such kind, or they may not be read."""
    for resource in DEVICE_TAINT_RULES:
        if rules := await or_default(cluster.listed(resource), []):
            return rules
    return []


def results_of(claim: JSON) -> list[JSON]:
    """The devices that a claim has."""
    return ((objects.status(claim).get("allocation") or {}).get("devices") or {}).get("results") or []


def taints_of(device: Device, rules: Iterable[JSON]) -> Iterator[tuple[JSON, str]]:
    """The taints of a device that do anything, each with who put it there."""
    for taint in device.get("taints") or ():
        if taint.get("effect") != "None":
            yield taint, f"by driver {device['driver']}"
    for rule in rules:
        spec = objects.spec(rule)
        selector, taint = spec.get("deviceSelector"), spec.get("taint") or {}
        given = {"driver": device["driver"], "pool": device["pool"], "device": device["name"]}
        selects = selector is not None and all(selector.get(key) in (None, "", value) for key, value in given.items())
        if selects and taint.get("effect") != "None":
            yield taint, f"by DeviceTaintRule {rule['metadata']['name']}"


def untolerated(device: Device, rules: Iterable[JSON], tolerations: Sequence[JSON], *effects: str) -> str:
    """The first taint with such an effect that the tolerations do not cover, and who put it there; "" for none."""
    for taint, source in taints_of(device, rules):
        if taint.get("effect") in effects and not any(_tolerates(toleration, taint) for toleration in tolerations):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"{taint.get('key')}{value}:{taint.get('effect')} {source}"
    return ""


def _tolerates(toleration: JSON, taint: JSON) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")
