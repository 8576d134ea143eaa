"""Devices as the verdicts on claims count them: those of classes and requests, who has them, and their taints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from app.claims.model import device_key
from app.claims.roads import allocatable_of, devices_of
from app.claims.slices import Pools, stored_slice
from app.doctor import objects
from app.doctor.catalog import listed
from app.doctor.cluster import EVERYWHERE, LIVING, Cluster
from app.doctor.model import or_default
from app.kinds.requests import pod_requests
from app.kube import quantity
from app.kube.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from app.text import moment
from app.wire import JSON

DEVICE_TAINT_RULES = tuple(
    Resource("resource.k8s.io", version, "devicetaintrules", "DeviceTaintRule", namespaced=False)
    for version in ("v1", "v1beta2", "v1alpha3")
)
"""The kind in the versions of Kubernetes 1.37, 1.36 and before, the newest first."""
POOL_STATUS = Resource(
    "resource.k8s.io", "v1alpha3", "resourcepoolstatusrequests", "ResourcePoolStatusRequest", namespaced=False
)
"""Asked once by its author, and answered by kube-controller-manager (KEP-5677, alpha in 1.36 and 1.37)."""
_FRESH = 60.0
"""Seconds for which such an answer counts."""
_HOSTS, _HOLDERS = 3, 3
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
    async for obj in cluster.paged(RESOURCE_CLAIMS, namespace=EVERYWHERE):
        for result in results_of(obj):
            if not result.get("adminAccess") and not result.get("shareID"):
                driver, pool, device, _ = device_key(result)
                held[driver, pool, device] = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
    return held


class Host(NamedTuple):
    """How many devices a node has, how many of them are free, and who has the others."""

    name: str
    total: int
    free: int
    holders: tuple[str, ...]

    @property
    def text(self) -> str:
        by = f", held by {listed(self.holders, _HOLDERS)}" if self.holders else ""
        return f"{self.name or 'no single node'}: {self.free} of {self.total} free{by}"


def shown_hosts(hosts: Sequence[Host]) -> str:
    """The first hosts in words, those with the most free devices first."""
    ranked = sorted(hosts, key=lambda host: (-host.free, host.name))
    more = [f"{len(hosts) - _HOSTS} more hosts have no more"] if len(hosts) > _HOSTS else []
    return "; ".join([*(host.text for host in ranked[:_HOSTS]), *more])


def hosts_of(
    devices: Iterable[Device], held: Mapping[Place, str], reported: Mapping[tuple[str, str], tuple[int, int]]
) -> list[Host]:
    """By node, who has these devices. What is `reported` of a pool counts for more than its claims."""
    by_node: dict[str, list[Device]] = {}
    for device in devices:
        by_node.setdefault(device["node"], []).append(device)
    hosts = []
    for node, own in sorted(by_node.items()):
        counts = reported_for(own, reported)
        free = sum(counts.values()) if counts else sum(place_of(device) not in held for device in own)
        claims = dict.fromkeys(f"ResourceClaim {held[place]}" for device in own if (place := place_of(device)) in held)
        hosts.append(Host(node, len(own), free, tuple(claims)))
    return hosts


async def plugin_hosts(cluster: Cluster) -> dict[str, list[Host]]:
    """The nodes that announce each extended resource, and the Pods that have it, as the scheduler counts them.

    Raises ApiError where nodes or Pods may not be listed: without the Pods, what is taken would count as free.
    """
    taken: dict[tuple[str, str], dict[str, Decimal]] = {}
    async for pod in cluster.paged(PODS, namespace=EVERYWHERE, field_selector=LIVING):
        if node := objects.spec(pod).get("nodeName"):
            for name, amount in _extended(pod).items():
                by_pod = taken.setdefault((str(node), name), {})
                by_pod[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"] = amount
    hosts: dict[str, list[Host]] = {}
    for node, amounts in allocatable_of(await cluster.listed(NODES)).items():
        for name, allocatable in amounts.items():
            if "/" in name and (total := _amount(allocatable)):
                pods = taken.get((node, name), {})
                free = max(total - int(sum(pods.values())), 0)
                hosts.setdefault(name, []).append(Host(node, total, free, tuple(pods)))
    return hosts


def _extended(pod: JSON) -> dict[str, Decimal]:
    """What a Pod has of extended resources. Most have none, and to add all up takes a while where there are many."""
    try:
        spec = objects.spec(pod)
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        if not any("/" in name for it in containers for name in (it.get("resources") or {}).get("requests") or ()):
            return {}
        return {name: amount for name, amount in pod_requests(pod).items() if "/" in name and amount}
    except (AttributeError, TypeError, ValueError):  # what no API server stores
        return {}


def _amount(value: object) -> int:
    try:
        return int(quantity.parse(value or 0))
    except ValueError:
        return 0


async def reported_free(cluster: Cluster) -> dict[tuple[str, str], tuple[int, int]]:
    """Total and free devices by driver and pool, as the ResourcePoolStatusRequests say that were answered lately."""
    pools: dict[tuple[str, str], tuple[int, int]] = {}
    for request in await or_default(cluster.listed(POOL_STATUS), []):
        complete = objects.condition(request, "Complete")
        since = moment(complete.get("lastTransitionTime"))
        if complete.get("status") != "True" or since is None or (cluster.now() - since).total_seconds() > _FRESH:
            continue
        for pool in objects.status(request).get("pools") or ():
            counts = pool.get("totalDevices"), pool.get("availableDevices")
            if all(isinstance(count, int) for count in counts):
                pools[str(pool.get("driver")), str(pool.get("poolName"))] = counts
    return pools


def reported_for(
    devices: Iterable[Device], reported: Mapping[tuple[str, str], tuple[int, int]]
) -> dict[tuple[str, str], int]:
    """How many of these are free by pool; none where a pool was not answered, or has other devices too."""
    pools = Counter((device["driver"], device["pool"]) for device in devices)
    if any(reported.get(pool, (None, 0))[0] != count for pool, count in pools.items()):
        return {}
    return {pool: reported[pool][1] for pool in pools}


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
