"""View `fabric`: hosts, the DPUs in them, and the companions on these, by tenant; what is broken is told first.

Whose a node is, and what is wrong with it, is decided by the judge of nodes. Nodes and Pods are each gone through once
for all hosts, and again when one of them has changed; what DPUs have left is counted for the hosts of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import islice

import msgspec

from app.doctor import objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster, locate
from app.doctor.objects import Object
from app.kinds.requests import Amounts, added, pod_requests
from app.kube.quantity import QuantityError
from app.kube.resources import NODES, PODS
from app.placement.checks import Dpus, dpus_of
from app.placement.model import TENANT_NAMESPACE_PREFIX
from app.status.reading import Reading
from app.tenancy.why.nodes import is_device, problem_of
from app.ui.details import Amount, Line, amount, line
from app.ui.subjects import Target
from app.ui.view import Asked, Model, Parameter, View
from app.why.inquiry import Inquiry
from app.why.model import State
from app.wire import JSON
from app.workloads.model import COMPANION, SYSTEM_NAMESPACE, TENANTS, tenant_name
from app.workloads.why.companions import PATIENCE

PAGE = 50
"""Hosts of a page."""
COLORS = 12
"""Colors of tenants; more tenants share them, and each is named."""
_MOST = 8
"""DPUs of a host, companions of a DPU and resources of a DPU that are shown."""
_ENDED = ("Succeeded", "Failed")


class Dpu(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A DPU: its tenant by its label, what is wrong with it, its companions, and what Pods ask of its resources."""

    target: Target
    tenant: str
    color: int
    state: str
    problem: str
    companions: tuple[Line, ...]
    more: int
    resources: tuple[Amount, ...]


class Host(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A host; `name` is "" for DPUs without one. `tenant` is the Tenant that names it, `color` a number for its name.

    `state` is the worst of it and of all in it. `problems` are what is wrong with the host itself; `waiting` are
    companions that wait for one of its DPUs.
    """

    name: str
    tenant: str
    color: int
    state: str
    problems: tuple[str, ...]
    dpus: tuple[Dpu, ...]
    waiting: tuple[Line, ...]
    more: int


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many hosts and DPUs there are, and how many of these are not as they should be.

    `homeless` are companions that have no node, and for which no host is meant. `colors` are the numbers of tenants.
    """

    tenant: str
    show: str
    hosts: int
    dpus: int
    companions: int
    broken: int
    without_dpu: int
    wrong_tenant: int
    waiting: int
    homeless: int
    colors: dict[str, int]
    unread: tuple[str, ...]


class Fabric(Model, frozen=True, kw_only=True, rename="camel"):
    """Hosts with their DPUs and companions. `following` is the word `after` of the next page, "" at the end."""

    summary: Summary
    hosts: tuple[Host, ...]
    following: str

    def fragments(self) -> dict[str, object]:
        tiles = {f"tile-{number}": host for number, host in enumerate(self.hosts)}
        return {"summary": self.summary, **tiles, "following": self.following}


@dataclass(frozen=True, slots=True)
class Place:
    """A node that is a DPU, as its judge sees it."""

    node: JSON
    tenant: str
    state: State
    problem: str


@dataclass(slots=True)
class Site:
    """A host as nodes and Tenants have it. `holders` are the Tenants that name it."""

    name: str
    holders: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    @property
    def tenant(self) -> str:
        return next(iter(self.holders), "")

    def problems(self, host_label: str) -> Iterator[tuple[State, str]]:
        """What is wrong with the host itself; without a label, nodes may not be read, and nothing is known of DPUs."""
        if not self.places and host_label:
            yield State.broken, f"has no DPU: no node has label {host_label}={self.name}"
        if len(self.holders) > 1:
            yield State.broken, f"is a host of Tenants {', '.join(self.holders)}: want one"


@dataclass(frozen=True, slots=True)
class Layout:
    """All hosts by their names, and the tenants; `unread` is what may not be read."""

    sites: Mapping[str, Site]
    tenants: tuple[str, ...]
    dpus: Dpus
    unread: tuple[str, ...]


@dataclass(slots=True)
class Companions:
    """Pods and companions by the node that they are on; companions without one by the host whose DPU they wait for."""

    pods: dict[str, list[JSON]] = field(default_factory=dict)
    on: dict[str, list[JSON]] = field(default_factory=dict)
    waiting: dict[str, list[JSON]] = field(default_factory=dict)
    homeless: int = 0
    count: int = 0
    unread: tuple[str, ...] = ()


async def _layout(cluster: Cluster) -> Layout:
    await locate(cluster)
    reading = Reading(cluster)
    dpus = await reading.tried(dpus_of(cluster), Dpus([], "", ""))
    tenants = [Object(TENANTS, obj) for obj in await reading.tried(cluster.listed(TENANTS), [])]
    sites = dict[str, Site]()
    for tenant in tenants:
        for host in dict.fromkeys(map(str, objects.spec(tenant.json).get("hosts") or ())):
            sites.setdefault(host, Site(host)).holders.append(tenant.name)
    inquiry = Inquiry(cluster)
    for node in dpus.nodes:
        own = objects.labels(node)
        host, owner = own.get(dpus.host_label) or "", own.get(dpus.tenant_label) or ""
        if not host and not owner:
            continue
        verdict = await inquiry.ask(problem_of(Object(NODES, node), tenants, dpus))
        state, said = (State.fine, ()) if verdict is None else (verdict.state, (verdict.text, *verdict.because))
        place = Place(node, owner, state, plain("; ".join(filter(None, said))))
        sites.setdefault(host, Site(host)).places.append(place)
    names = {tenant.name for tenant in tenants} | {place.tenant for site in sites.values() for place in site.places}
    ordered = {name: sites[name] for name in sorted(sites)}
    return Layout(ordered, tuple(sorted(filter(None, names))), dpus, tuple(reading.unread))


async def _companions(cluster: Cluster) -> Companions:
    await locate(cluster)
    reading, seen = Reading(cluster), Companions()
    dpus = await reading.tried(dpus_of(cluster), Dpus([], "", ""))
    async for pod in reading.each(cluster.pods()):
        node, phase = (pod.get("spec") or {}).get("nodeName"), objects.status(pod).get("phase")
        ours = COMPANION in objects.labels(pod)
        if phase in _ENDED and not (ours and phase == "Failed"):
            continue
        seen.count += ours
        if node:
            seen.pods.setdefault(node, []).append(pod)
            if ours:
                seen.on.setdefault(node, []).append(pod)
        elif ours:
            host = dpus.place_of(pod)[0]
            seen.homeless += host is None
            if host is not None:
                seen.waiting.setdefault(host, []).append(pod)
    seen.unread = tuple(text for text in reading.unread)
    return seen


async def _read(asked: Asked) -> Fabric:
    layout = await asked.kept("fabric layout", _layout)
    companions = await asked.kept("fabric companions", _companions)
    now = await asked.kept("clock", _now)
    tenant, show, after = (asked.query.get(word, "").strip() for word in ("tenant", "show", "after"))
    colors = {name: number % COLORS for number, name in enumerate(layout.tenants)}
    sites = [site for site in layout.sites.values() if not tenant or tenant in _tenants(site)]
    states = {site.name: _state_of(site, layout, companions, now) for site in sites}
    bad = [site for site in sites if states[site.name]]
    behind = (site for site in (bad if show == "problems" else sites) if not after or site.name > after)
    chosen = list(islice(behind, PAGE + 1))
    hosts = tuple(_host(site, states[site.name], layout, companions, colors, now) for site in chosen[:PAGE])
    summary = Summary(
        tenant=tenant,
        show=show,
        hosts=sum(bool(site.name) for site in sites),
        dpus=sum(len(site.places) for site in sites),
        companions=companions.count,
        broken=len(bad),
        without_dpu=sum(not site.places for site in sites) if layout.dpus.host_label else 0,
        wrong_tenant=sum(_is_wrong(site, place) for site in sites for place in site.places),
        waiting=sum(len(_waiting(site, companions)) for site in sites),
        homeless=companions.homeless,
        colors=colors,
        unread=tuple(dict.fromkeys((*layout.unread, *companions.unread))),
    )
    following = chosen[PAGE - 1].name if len(chosen) > PAGE else ""
    return Fabric(summary=summary, hosts=hosts, following=following)


async def _now(cluster: Cluster) -> datetime:
    return cluster.now()


def _tenants(site: Site) -> set[str]:
    return {*site.holders, *(place.tenant for place in site.places)}


def _is_wrong(site: Site, place: Place) -> bool:
    return bool(site.holders) and place.tenant not in site.holders


def _state_of(site: Site, layout: Layout, companions: Companions, now: datetime) -> State:
    """The worst of a host, of its DPUs and of all companions on them and for them."""
    states = [place.state for place in site.places]
    states += [state for state, _ in site.problems(layout.dpus.host_label)]
    states += [_of_companion(pod, "", now)[0] for pod in _waiting(site, companions)]
    for place in site.places:
        own = companions.on.get(place.node["metadata"]["name"], ())
        states += [_of_companion(pod, place.tenant, now)[0] for pod in own]
    return max(states, default=State.fine)


def _waiting(site: Site, companions: Companions) -> list[JSON]:
    return companions.waiting.get(site.name, []) if site.name else []


def _host(
    site: Site, state: State, layout: Layout, companions: Companions, colors: Mapping[str, int], now: datetime
) -> Host:
    waiting = _waiting(site, companions)
    return Host(
        name=plain(site.name),
        tenant=site.tenant,
        color=colors.get(site.tenant, 0),
        state=state.name,
        problems=tuple(plain(text) for _, text in site.problems(layout.dpus.host_label)),
        dpus=tuple(_dpu(place, companions, colors, now) for place in site.places[:_MOST]),
        waiting=tuple(_lines(waiting[:_MOST], "", now)),
        more=max(0, len(site.places) - _MOST) + max(0, len(waiting) - _MOST),
    )


def _dpu(place: Place, companions: Companions, colors: Mapping[str, int], now: datetime) -> Dpu:
    name = place.node["metadata"]["name"]
    own = companions.on.get(name, [])
    return Dpu(
        target=Target(kind=NODES.kind, namespace="", name=name),
        tenant=plain(place.tenant),
        color=colors.get(place.tenant, 0),
        state=place.state.name,
        problem=place.problem,
        companions=tuple(_lines(own[:_MOST], place.tenant, now)),
        more=max(0, len(own) - _MOST),
        resources=tuple(islice(_resources(place.node, companions.pods.get(name, ())), _MOST)),
    )


def _lines(pods: Iterable[JSON], tenant: str, now: datetime) -> Iterator[Line]:
    for pod in pods:
        metadata = pod["metadata"]
        state, text = _of_companion(pod, tenant, now)
        target = Target(kind=PODS.kind, namespace=metadata["namespace"], name=metadata["name"])
        yield line(text, target, state.name)


def _of_companion(pod: JSON, tenant: str, now: datetime) -> tuple[State, str]:
    """How a companion is on a DPU of this tenant ("" for any), by the patience that the section of `status` has."""
    namespace = pod["metadata"]["namespace"]
    if tenant and namespace.startswith(TENANT_NAMESPACE_PREFIX) and namespace != SYSTEM_NAMESPACE:
        owner = tenant_name(namespace)
        if owner != tenant:
            return State.broken, f"is of tenant {owner}, on a DPU of tenant {tenant}"
    why = objects.waits_for(pod)
    if why is None:
        return State.fine, ""
    failed = objects.status(pod).get("phase") == "Failed"
    late = failed or objects.age(pod, now) > PATIENCE
    return (State.stuck if late else State.waits), ": ".join(filter(None, why))


def _resources(node: JSON, pods: Sequence[JSON]) -> Iterator[Amount]:
    """What Pods ask of cpu, memory and devices of a node."""
    asked: Amounts = {}
    for pod in pods:
        with suppress(QuantityError, AttributeError, TypeError):
            asked = added(asked, pod_requests(pod))
    allocatable: JSON = objects.status(node).get("allocatable") or {}
    for name in ("cpu", "memory", *sorted(filter(is_device, allocatable))):
        if name in allocatable:
            with suppress(QuantityError):
                yield amount(name, asked.get(name, Decimal(0)), allocatable[name])


VIEW = View(
    "fabric",
    "Fabric",
    "Hosts, the DPUs in them, and the companions on each, by tenant. What Pods ask of a DPU counts as used.",
    Fabric,
    _read,
    "ui/templates/fabric.html",
    (
        Parameter("tenant", "hosts and DPUs of this tenant alone"),
        Parameter("show", "`problems`: only hosts with a problem"),
        Parameter("after", "the object before the page: `following` of the page before"),
    ),
)
