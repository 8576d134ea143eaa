"""How devices of attachments are served, for the check `claims`, and what keeps Multus from finding them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from app.claims.model import DEVICE_ID, RESOURCE_NAME
from app.claims.roads import Demand, Offer, Road, allocatable_of, demands_of, devices_of, multus_finds, serves
from app.doctor import objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Severity, info, more_of, warning
from app.kube.resources import DEVICE_CLASSES, NETWORK_ATTACHMENTS, NODES, RESOURCE_SLICES
from app.networks.model import project_with_claims
from app.networks.settings import NetworksSettings
from app.text import several

_MOST = 50
"""Resources with findings of their own."""
_SRIOV = "sriovnetwork.k8snetworkplumbingwg.io"


@dataclass(frozen=True, slots=True)
class Asked:
    """What attachments ask for, and the first of them, with their number."""

    demand: Demand
    first: str
    count: int

    @property
    def subject(self) -> str:
        return f"{NETWORK_ATTACHMENTS.kind} {self.first}"

    @property
    def what(self) -> str:
        more = f", as {several(self.count - 1, 'other attachment')} too" if self.count > 1 else ""
        return f"asks for {'a device of DeviceClass ' if self.demand.by_class else ''}{plain(self.demand.name)}{more}"


async def roads(cluster: Cluster) -> AsyncIterator[Finding]:
    requests, offer = await _asked(cluster), await offer_of(cluster)
    served, count = [], 0
    for request in requests:
        road = request.demand.road(offer)
        if not road.missing:
            served.append(f"{plain(request.demand.name)} by {' and '.join(road.ways)}")
        if count >= _MOST:
            continue
        findings = [_nothing(request, road, offer)] if road.missing else list(_hidden(request, offer))
        count += len(findings)
        for finding in findings:
            yield finding
    if served:
        yield info("BERTH5007", "", served=served)
    if count >= _MOST:
        yield more_of(Severity.warning, "there may be more resources")


async def served_by_claims(cluster: Cluster) -> list[str]:
    """The resources of attachments whose devices come by claims, that of the scheduler or one of the Pod."""
    offer = await offer_of(cluster)
    return [
        request.demand.name
        for request in await _asked(cluster)
        if any(way.startswith("DRA") for way in request.demand.road(offer).ways)
    ]


async def _asked(cluster: Cluster) -> list[Asked]:
    keys = (await cluster.settings(NetworksSettings)).resource_name_keys
    names: dict[Demand, list[str]] = {}
    for obj in await cluster.listed(NETWORK_ATTACHMENTS):
        attachment = project_with_claims(obj, keys)
        for demand in demands_of(attachment)[:1]:
            names.setdefault(demand, []).append(attachment.key)
    return [Asked(demand, min(of), len(of)) for demand, of in sorted(names.items()) if demand.name]


async def offer_of(cluster: Cluster) -> Offer:
    nodes, classes, slices = [await cluster.listed(resource) for resource in (NODES, DEVICE_CLASSES, RESOURCE_SLICES)]
    return Offer(allocatable_of(nodes), classes, slices)


def _nothing(request: Asked, road: Road, offer: Offer) -> Finding:
    # An attachment may be there before the device plugin that announces its resource.
    early = not request.demand.by_class and not any(
        serves(device_class, request.demand.name) for device_class in offer.classes
    )
    bad, case = (info, "early") if early else (warning, "")
    return bad("BERTH5008", request, case=case, what=request.what, road=road.text)


def _hidden(request: Asked, offer: Offer) -> Iterator[Finding]:
    """Devices that the scheduler allocates for a resource, and that Multus does not find for it."""
    bound = [part for part in offer.slices if part["spec"].get("nodeName")]
    demand = request.demand
    for device_class in () if demand.by_class else offer.classes:
        devices = devices_of(device_class, offer.slices) if serves(device_class, demand.name) else []
        if not devices or any(multus_finds(device, demand.name) for device in devices_of(device_class, bound)):
            continue
        names, it = sorted({device["driver"] for device in devices}), objects.Object(DEVICE_CLASSES, device_class)
        multus = any(multus_finds(device, demand.name) for device in devices)
        case = "unbound" if multus else "sriov" if _SRIOV in names else ""
        yield warning("BERTH5009", it, case=case, name=demand.name, id=DEVICE_ID, key=RESOURCE_NAME, driver=names[0])
