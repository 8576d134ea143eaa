"""What in a tenant's Pod would change where Pods of others are scheduled, or whether they stay. Pure.

Required anti-affinity binds both sides in the scheduler: a Pod that runs keeps every Pod off that its terms select, in
whatever namespace that is (https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/). The score of a
node counts terms of running Pods too. So a term may select Pods of its own namespace alone. Topology spread
constraints never look beyond it. How many terms a Pod may have is in `terms`. The verdict on each field of a Pod is in
`docs/security.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from app.placement.policy import DEFAULT_SCHEDULER, SYSTEM_PRIORITY, Allowance, TenantPolicy
from app.text import cut
from app.wire import JSON
from app.workloads.templates.marks import CONTAINERS, PROBES, each, member, shown
from app.workloads.templates.terms import PREFERRED, REQUIRED, crowded

HOSTNAME: Final = "kubernetes.io/hostname"
MOST_GRACE_SECONDS: Final = 3600
"""The longest grace period of a tenant's Pod: so long may a drain of its node, or the end of its namespace, wait."""
DEVICE_CLASS_RESOURCE: Final = "deviceclass.resource.kubernetes.io/"
"""Before the name of a DeviceClass, an extended resource by which a container asks for its devices (KEP-5004)."""
_GRACE = "terminationGracePeriodSeconds"


def shared_fate(spec: Any, path: str, policy: TenantPolicy, *, admitted: bool) -> Iterator[str]:
    """One line for each field by which a tenant's Pod would affect Pods of others."""
    yield from crowded(spec, path, admitted=admitted)
    yield from _pod_affinity(member(spec, "affinity"), f"{path}.affinity")
    yield from _classes(spec, path, policy)
    if not admitted:
        yield from priority_fields(spec, path)
    if member(spec, "evictionResponders"):
        yield f"{path}.evictionResponders: would hold up drains of the node; leave it out"
    yield from _grace(spec, path)
    yield from _device_classes(spec, path, policy)
    for field in CONTAINERS:
        for here, container in each(spec, field, path):
            yield from _device_classes(container, here, policy)
            for probe in PROBES:
                yield from _grace(container.get(probe), f"{here}.{probe}")


def priority_fields(spec: Any, path: str) -> Iterator[str]:
    """What the Priority admission plugin writes into a Pod, from its class. A template that has it makes no Pods."""
    for field in ("priority", "preemptionPolicy"):
        if member(spec, field):
            yield f"{path}.{field}: follows from the priority class; leave it out"


def claim_problems(claim: Any, path: str, policy: TenantPolicy) -> Iterator[str]:
    """Why devices cannot be claimed in a tenant's namespace, from the spec of a ResourceClaim (of any version)."""
    for here, request in each(member(claim, "devices"), "requests", f"{path}.devices"):
        exactly = request.get("exactly")
        yield from _device_request(request, here, policy)
        yield from _device_request(exactly if isinstance(exactly, dict) else {}, f"{here}.exactly", policy)
        for below, alternative in each(request, "firstAvailable", here):
            yield from _device_request(alternative, below, policy)


def _device_request(request: JSON, path: str, policy: TenantPolicy) -> Iterator[str]:
    name = request.get("deviceClassName")
    if name is not None and not policy.allows("deviceClass", name):
        advice = policy.advice("deviceClass", whole="the request")
        yield f"{path}.deviceClassName: {shown(name)} is not allowed for a tenant; {advice}"
    if request.get("adminAccess"):
        yield f"{path}.adminAccess: a tenant has no access to devices of others; leave it out"


def _pod_affinity(affinity: Any, path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = member(affinity, kind)
        for here, term in each(terms, REQUIRED, f"{path}.{kind}"):
            yield from _foreign(term, here)
            if kind == "podAntiAffinity" and term.get("topologyKey") != HOSTNAME:
                key = shown(term.get("topologyKey"))
                yield f"{here}.topologyKey: a tenant's Pod may not keep others off {key}; use {HOSTNAME}"
        for here, weighted in each(terms, PREFERRED, f"{path}.{kind}"):
            yield from _foreign(weighted.get("podAffinityTerm"), f"{here}.podAffinityTerm")


def _foreign(term: Any, path: str) -> Iterator[str]:
    """What makes a term select Pods of other namespaces. A selector that is empty selects all of them.

    A term that names the Pod's own namespace alone is refused too: the quota of the namespace counts it as crossing.
    """
    for field, crosses in (
        ("namespaceSelector", member(term, "namespaceSelector") is not None),
        ("namespaces", bool(member(term, "namespaces"))),
    ):
        if crosses:
            yield f"{path}.{field}: a tenant's Pod looks at Pods of its own namespace alone; leave it out"


def _classes(spec: Any, path: str, policy: TenantPolicy) -> Iterator[str]:
    fields: tuple[tuple[str, Allowance], ...] = (
        ("priorityClassName", "priorityClass"),
        ("runtimeClassName", "runtimeClass"),
        ("schedulerName", "scheduler"),
    )
    for field, kind in fields:
        name = member(spec, field)
        if not name or policy.allows(kind, name) or (field == "schedulerName" and name == DEFAULT_SCHEDULER):
            continue
        if isinstance(name, str) and field == "priorityClassName" and name.startswith(SYSTEM_PRIORITY):
            yield f"{path}.{field}: {shown(name)} is for the cluster's own Pods; leave it out"
        else:
            yield f"{path}.{field}: {shown(name)} is not allowed in a tenant's Pod; {policy.advice(kind)}"


def _grace(holder: Any, path: str) -> Iterator[str]:
    seconds = member(holder, _GRACE)
    if isinstance(seconds, (int, float)) and seconds > MOST_GRACE_SECONDS:
        yield f"{path}.{_GRACE}: {shown(seconds)} is too long for a tenant's Pod; want at most {MOST_GRACE_SECONDS}"


def _device_classes(holder: Any, path: str, policy: TenantPolicy) -> Iterator[str]:
    """Devices that are asked for as an extended resource, without a claim of one's own."""
    resources = member(holder, "resources")
    for field in ("limits", "requests"):
        wanted = member(resources, field)
        for key in wanted if isinstance(wanted, dict) else ():
            name = key.removeprefix(DEVICE_CLASS_RESOURCE)
            if name != key and not policy.allows("deviceClass", name):
                advice = policy.advice("deviceClass", whole="the resource")
                yield f"{path}.resources.{field}[{cut(key)}]: not allowed in a tenant's Pod; {advice}"
