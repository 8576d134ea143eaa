"""View `networks`: attachments, the resource or class that each wants, what offers it, and the Pods on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from app.claims.checks.roads import offer_of
from app.claims.roads import Demand, Offer, Road, demands_of
from app.doctor import objects
from app.doctor.cluster import Cluster, locate
from app.doctor.objects import Object
from app.errors import ApiError, Denied
from app.kinds.requests import Amounts, added, pod_requests
from app.kube.derived import Derived
from app.kube.quantity import QuantityError, parse
from app.kube.quantity import added as both
from app.kube.resources import NETWORK_ATTACHMENTS, PODS
from app.networks.interfaces import chosen_by
from app.networks.model import DEFAULT_NETWORK, NETWORKS, project_with_claims
from app.networks.why.attachments import networks_settings
from app.text import several
from app.ui.details import MOST, Amount, Detail, amount, detail, line
from app.ui.objects import Field, Listed, objects_view
from app.ui.subjects import Target
from app.ui.view import Asked
from app.why.model import Verdict
from app.wire import JSON, decode_json, encode_json

_ENDED = ("Succeeded", "Failed")
_Network = tuple[str, str]
"""Namespace and name of an attachment."""


class Users(NamedTuple):
    """The Pods of an attachment: how many, and the first."""

    number: int
    first: tuple[Target, ...]


class Using(NamedTuple):
    """The Pods of all attachments, and what all Pods together ask of resources of devices."""

    users: Mapping[_Network, Users]
    asked: Amounts


class Uses(NamedTuple):
    """What a Pod asks of devices, and its annotations of networks; nothing of one that has ended.

    Pods alike share one `asked`.
    """

    asked: Amounts
    networks: str | None
    default: str | None
    namespace: str


class Offered:
    """What the cluster offers: how a demand is served, and how much of a resource nodes have."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self.road = lru_cache(maxsize=4096)(self._road)
        self.amount = lru_cache(maxsize=4096)(self._amount)

    def _road(self, demand: Demand) -> Road:
        return demand.road(self._offer)

    def _amount(self, resource: str) -> Decimal:
        total = Decimal(0)
        for amounts in self._offer.nodes.values():
            with suppress(QuantityError):
                total = both(total, parse(amounts.get(resource, 0)))
        return total


async def _detail(asked: Asked, it: Object, _verdict: Verdict | None) -> Detail:
    settings = await asked.kept("networks settings", _settings)
    offered, using, unread = None, None, list[str]()
    try:
        offered = await asked.kept("offered", _offered)
    except ApiError as refusal:
        unread.append(_said(refusal))
    try:
        using = await asked.kept("networks in use", _using)
    except ApiError as refusal:
        unread.append(_said(refusal))
    demands = [demand for demand in demands_of(project_with_claims(it.json, settings)) if demand.name]
    users = using.users.get((it.namespace, it.name), Users(0, ())) if using is not None else None
    roads = [offered.road(demand) for demand in demands] if offered is not None else []
    return detail(
        (*map(line, unread), *(line("", target) for target in (users.first if users is not None else ()))),
        amounts=_amounts(demands, offered, using),
        more=users.number - len(users.first) if users is not None else 0,
        wants=", ".join(f"DeviceClass {demand.name}" if demand.by_class else demand.name for demand in demands),
        source="; ".join(dict.fromkeys(way for road in roads for way in road.ways)) or ("?" if offered is None else ""),
        offered="; ".join(road.text for road in roads),
        pods="?" if users is None else several(users.number, "Pod"),
    )


def _said(refusal: ApiError) -> str:
    if not refusal.status or refusal.status == 401:
        raise refusal
    return str(refusal)


def _amounts(demands: list[Demand], offered: Offered | None, using: Using | None) -> Iterator[Amount]:
    """What all Pods ask of resources that nodes have."""
    for demand in demands:
        if offered is None or using is None or demand.by_class:
            continue
        if whole := offered.amount(demand.name):
            yield amount(demand.name, using.asked.get(demand.name, Decimal(0)), f"{whole:f}")


async def _settings(cluster: Cluster) -> tuple[str, ...]:
    await locate(cluster)
    return tuple((await networks_settings(cluster)).resource_name_keys)


async def _offered(cluster: Cluster) -> Offered:
    return Offered(await offer_of(cluster))


async def _using(cluster: Cluster) -> Using:
    await locate(cluster)
    home = (await networks_settings(cluster)).default_network_namespace
    counts, first, alike = dict[_Network, int](), dict[_Network, list[Target]](), dict[int, tuple[Amounts, int]]()
    async for pod in cluster.pods():
        asked, networks, default, namespace = USES(pod)
        if asked:
            alike[id(asked)] = asked, alike.get(id(asked), (asked, 0))[1] + 1
        if networks is None and default is None:
            continue
        for network in _selected(networks, default, namespace, home):
            counts[network] = counts.get(network, 0) + 1
            if counts[network] <= MOST:
                target = Target(kind=PODS.kind, namespace=namespace, name=pod["metadata"]["name"])
                first.setdefault(network, []).append(target)
    total = Amounts()
    for asked, number in alike.values():
        total = added(total, {name: amount * number for name, amount in asked.items()})
    return Using({network: Users(count, tuple(first[network])) for network, count in counts.items()}, total)


def _uses(pod: JSON) -> Uses:
    metadata = pod["metadata"]
    namespace = metadata.get("namespace") or ""
    if objects.status(pod).get("phase") in _ENDED:
        return Uses({}, None, None, namespace)
    asked = Amounts()
    with suppress(QuantityError, AttributeError, TypeError):
        asked = _devices_of(pod)
    annotations = metadata.get("annotations") or {}
    return Uses(asked, annotations.get(NETWORKS), annotations.get(DEFAULT_NETWORK), namespace)


USES = Derived(_uses)
"""Of each Pod: after a change it is computed of that one."""


@lru_cache(maxsize=4096)
def _selected(networks: str | None, default: str | None, namespace: str, home: str) -> frozenset[_Network]:
    """The attachments of a Pod with these annotations; none of one that Multus does not read."""
    pairs = ((NETWORKS, networks), (DEFAULT_NETWORK, default))
    try:
        chosen = chosen_by({name: text for name, text in pairs if text is not None}, namespace)
    except Denied:
        return frozenset()
    selections = (*chosen.selections, *([chosen.default] if chosen.default else ()))
    return frozenset((selection.namespace or home, selection.name) for selection in selections)


def _devices_of(pod: JSON) -> Amounts:
    """What a Pod asks of extended resources. Raises QuantityError."""
    parts = {name: (pod.get("spec") or {}).get(name) or () for name in ("containers", "initContainers")}
    limits = ((container.get("resources") or {}).get("limits") for part in parts.values() for container in part)
    if not any("/" in name for amounts in limits for name in amounts or ()):
        return {}
    kept = {
        part: [{name: container.get(name) for name in ("resources", "restartPolicy")} for container in containers]
        for part, containers in parts.items()
    }
    return _requests(encode_json(kept))


@lru_cache(maxsize=4096)
def _requests(spec: bytes) -> Amounts:
    """Of Pods alike it is computed once."""
    return {name: number for name, number in pod_requests({"spec": decode_json(spec)}).items() if "/" in name}


VIEW = objects_view(
    "networks",
    "Networks",
    "Attachments: what each wants, what offers it and how, how much of it all Pods ask for, and which Pods use it.",
    Listed(
        NETWORK_ATTACHMENTS,
        (
            Field("wants", "wants"),
            Field("source", "source"),
            Field("offered", "offered by"),
            Field("pods", "used by"),
        ),
        _detail,
    ),
)
