"""A Service, the Pods that it selects and its EndpointSlices: what has to be created, changed and deleted. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from app.services.addresses import Claimed, Network, Reason, addresses_of
from app.services.model import (
    MOST_ENDPOINTS,
    Pod,
    Problem,
    Service,
    Wish,
    no_pods,
    not_attached,
    not_found,
    not_of_driver,
    outside,
    subnets_unknown,
)
from app.services.slices import Endpoint, EndpointSlice, Port, Wanted, endpoints_of, ports_of

Group = tuple[str, tuple[Port, ...]]
"""Slices of one family with the same ports share their endpoints out."""
_NAMED = 3
"""Pods that a message names."""
Found = Mapping[str, tuple[Endpoint | None, ...]]
"""The endpoints of the slices of one group (family and ports), by name."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """`pods` are those that the Service selects, `slices` all of ours that name it, `zones` those of existing nodes.

    `taken` are names that slices of others have.
    """

    service: Service
    network: Network
    pods: tuple[Pod, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()
    zones: Mapping[str, str] = field(default_factory=dict)
    claimed: Claimed = field(default_factory=Claimed)
    taken: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """`create` is by name. `skipped` are the Pods that are no endpoints, and why; `ready` counts endpoints."""

    create: Mapping[str, Wanted] = field(default_factory=dict)
    change: tuple[tuple[EndpointSlice, Wanted], ...] = ()
    delete: tuple[EndpointSlice, ...] = ()
    skipped: tuple[tuple[str, Reason], ...] = ()
    ready: int = 0
    unready: int = 0


def plan_service(inputs: Inputs) -> ServicePlan:
    """Only what differs is written. Slices of an earlier Service of the name, or of a family that it has not, go."""
    service = inputs.service
    by_group, skipped = _wanted(inputs)
    ours, gone = _sorted_out(inputs)
    create: list[Wanted] = []
    change: list[tuple[EndpointSlice, Wanted]] = []
    for group in sorted({*by_group, *ours}):
        slices = {endpoint_slice.key[1]: endpoint_slice for endpoint_slice in ours.get(group, ())}
        packed = pack(
            {name: endpoint_slice.endpoints for name, endpoint_slice in slices.items()}, by_group.get(group, ())
        )
        change += [(slices[name], Wanted(*group, endpoints, service.labels)) for name, endpoints in packed.kept.items()]
        create += [Wanted(*group, endpoints, service.labels) for endpoints in packed.further]
        gone += [endpoint_slice for name, endpoint_slice in slices.items() if name not in packed.kept]
    create, change = _reusing(create, change, gone, service)
    counts = Counter(endpoint.ready for endpoints in by_group.values() for endpoint in endpoints)
    return ServicePlan(
        create=dict(zip(_names(inputs), () if service.deleting else create, strict=False)),
        change=tuple((stored, to) for stored, to in change if to.patch(stored)),
        delete=tuple(gone),
        skipped=tuple(skipped),
        ready=counts[True],
        unready=counts[False],
    )


def problems_of(service: Service, wish: Wish, plan: ServicePlan, *, attached: bool) -> list[Problem]:
    """What is wrong with the endpoints of a plan. `attached` is whether the attachment exists, if one is named."""
    problems = [] if attached else [not_found(wish.network)]
    if attached and not (plan.ready or plan.unready or plan.skipped or service.deleting):
        problems.append(no_pods(wish))
    if named := named_of(plan, "NotAttached"):
        problems.append(not_attached(wish, named))
    if attached and (named := named_of(plan, "NoSubnets")):
        problems.append(subnets_unknown(wish.network, named))
    if named := named_of(plan, "NotOfDriver"):
        problems.append(not_of_driver(wish, named))
    if named := named_of(plan, "OutsideNetwork"):
        problems.append(outside(wish, named))
    return problems


def named_of(plan: ServicePlan, reason: Reason) -> str:
    """The first Pods that are no endpoints for this reason, "" for none."""
    odd = [name for name, why in plan.skipped if why == reason]
    return ", ".join(odd[:_NAMED]) + (" and others" if len(odd) > _NAMED else "")


def _wanted(inputs: Inputs) -> tuple[dict[Group, list[Endpoint]], list[tuple[str, Reason]]]:
    """The endpoints of each group, and the Pods that have none."""
    service = inputs.service
    endpoints_by_group: dict[Group, list[Endpoint]] = {}
    skipped: list[tuple[str, Reason]] = []
    for pod in sorted(inputs.pods, key=lambda pod: pod.key):
        if pod.over:
            continue
        if pod.node not in inputs.zones and not service.publish_not_ready:
            skipped.append((pod.key[1], "NoNode"))
            continue
        addresses = addresses_of(pod, inputs.network, inputs.claimed)
        if isinstance(addresses, str):
            skipped.append((pod.key[1], addresses))
            continue
        ports, zone = ports_of(pod, service), inputs.zones.get(pod.node, "")
        usable = [address for address in addresses if f"IPv{address.version}" in service.families]
        for address, endpoint in zip(usable, endpoints_of(pod, service, tuple(usable), zone), strict=True):
            endpoints_by_group.setdefault((f"IPv{address.version}", ports), []).append(endpoint)
        if not usable:
            skipped.append((pod.key[1], "NoAddress"))
    return endpoints_by_group, skipped


def _sorted_out(inputs: Inputs) -> tuple[dict[Group, list[EndpointSlice]], list[EndpointSlice]]:
    """The slices of this Service by group, and those that have to go."""
    ours: dict[Group, list[EndpointSlice]] = {}
    gone: list[EndpointSlice] = []
    for endpoint_slice in inputs.slices:
        if endpoint_slice.deleting:
            continue
        if endpoint_slice.owner != inputs.service.uid or endpoint_slice.family not in inputs.service.families:
            gone.append(endpoint_slice)
        else:
            ours.setdefault((endpoint_slice.family, endpoint_slice.ports), []).append(endpoint_slice)
    return ours, gone


def _reusing(
    create: list[Wanted], change: list[tuple[EndpointSlice, Wanted]], gone: list[EndpointSlice], service: Service
) -> tuple[list[Wanted], list[tuple[EndpointSlice, Wanted]]]:
    """A slice that would be deleted becomes one that is needed; its family cannot change. `gone` loses it."""
    left: list[Wanted] = []
    changed = list(change)
    for planned in create:
        spare = next(
            (former for former in gone if (former.family, former.owner) == (planned.family, service.uid)), None
        )
        if spare is None:
            left.append(planned)
        else:
            gone.remove(spare)
            changed.append((spare, planned))
    return left, changed


def _names(inputs: Inputs) -> Iterator[str]:
    """Free names, always the same ones: to create a slice that the cache does not show yet ends with a conflict."""
    digest = hashlib.sha256(inputs.service.uid.encode()).hexdigest()[:8]
    used = inputs.taken.union(endpoint_slice.key[1] for endpoint_slice in inputs.slices)
    names = (f"{inputs.service.key[1]}-{digest}-{number}" for number in count(1))
    return (name for name in names if name not in used)


class Packed(NamedTuple):
    """The endpoints of slices that stay, and those that further slices are needed for. A slice in none is empty now."""

    kept: Mapping[str, tuple[Endpoint, ...]]
    further: tuple[tuple[Endpoint, ...], ...]


def pack(slices: Found, endpoints: Iterable[Endpoint], most: int = MOST_ENDPOINTS) -> Packed:
    """Pack endpoints into slices with few changes, as Kubernetes does (k8s.io/endpointslice, reconciler.go).

    Every endpoint of `endpoints` is in one slice, and no slice has more than `most`.

    An endpoint stays where it is. New ones go into slices that change anyway, the fullest first; what is left goes into
    the one other slice that it fills best, else into further slices.
    """
    missing = {endpoint.identity: endpoint for endpoint in endpoints}
    kept, changed = _keep(slices, missing, most)
    rest = list(missing.values())
    for name in sorted(changed, key=lambda name: (-len(kept[name]), name)):
        room = most - len(kept[name])
        kept[name] += rest[:room]
        rest = rest[room:]
    best = _best(kept, changed, len(rest), most) if rest else None
    if best is not None:
        kept[best] += rest
        rest = []
    return Packed({name: tuple(endpoints) for name, endpoints in kept.items()}, _chunks(rest, most))


def _keep(
    slices: Found, missing: dict[tuple[str, str], Endpoint], most: int
) -> tuple[dict[str, list[Endpoint]], set[str]]:
    """What stays of each slice, as it should be now, and which of them differ; `missing` loses what has a place."""
    kept: dict[str, list[Endpoint]] = {}
    changed = set()
    for name, endpoints in sorted(slices.items()):
        stays: list[Endpoint] = []
        for endpoint in endpoints:
            now = missing.get(endpoint.identity) if endpoint is not None and len(stays) < most else None
            if now is not None:
                stays.append(missing.pop(now.identity))
        if stays:
            kept[name] = stays
            if tuple(stays) != endpoints:
                changed.add(name)
    return kept, changed


def _best(kept: Mapping[str, Sequence[Endpoint]], changed: set[str], count: int, most: int) -> str | None:
    """The slice that has the least room left with so many more."""
    room = {name: most - len(endpoints) - count for name, endpoints in kept.items() if name not in changed}
    return min((name for name, left in room.items() if left >= 0), key=lambda name: (room[name], name), default=None)


def _chunks(rest: Sequence[Endpoint], most: int) -> tuple[tuple[Endpoint, ...], ...]:
    return tuple(tuple(rest[at : at + most]) for at in range(0, len(rest), most))
