"""Pods that wait for a resource that nothing in the cluster offers, for the check `pods`.

The scheduler repeats of such a Pod that the resource is insufficient, as of one that waits for its turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from app.admission.pods import pod_from
from app.claims.injection.doubled import extended_resources
from app.claims.roads import Offer, road_of
from app.doctor.claims_roads import offer_of
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Severity, error, more_of, topic
from app.doctor.namespaces import SYSTEM
from app.doctor.pod_owners import Group, Owner, owner_of, topmost
from app.doctor.texts import listed, plain
from app.text import several

_UNSCHEDULED = "spec.nodeName=,status.phase=Pending"
_MOST = 200
"""Owners and resources with a finding of their own."""


async def unoffered(cluster: Cluster) -> AsyncIterator[Finding]:
    groups: dict[tuple[Owner, str], Group] = {}
    offered: Offer | None = None
    missing: dict[str, str] = {}
    beyond = 0
    async for pod in cluster.pods(field_selector=_UNSCHEDULED):
        if pod["metadata"]["namespace"] in (SYSTEM, cluster.namespace) or pod["metadata"].get("deletionTimestamp"):
            continue
        for asked in extended_resources(pod_from(pod)):
            offered = offered or await offer_of(cluster)
            if asked.resource not in missing:
                road = road_of(asked.resource, offered)
                missing[asked.resource] = road.text if road.ways == ("nothing",) else ""
            key = (owner_of(pod), asked.resource)
            if missing[asked.resource] and (key in groups or len(groups) < _MOST):
                groups.setdefault(key, Group()).add(pod)
            else:
                beyond += bool(missing[asked.resource])
    known = sorted({name for amounts in (offered.nodes.values() if offered else ()) for name in amounts if "/" in name})
    others = f" (nodes offer {plain(listed(known))})" if known else ""
    for (creator, resource), group in groups.items():
        owner, s = await topmost(cluster, creator), "" if group.pods > 1 else "s"
        topics = tuple(topic("start", creator.namespace, name) for name in group.names)
        said: dict[str, Any] = {"of": group.of(owner), "s": s, "resource": resource, "road": missing[resource]}
        yield error("BERTH1207", owner, others=others, explains=topics, **said)
    if beyond:
        yield more_of(Severity.error, several(beyond, "more Pod"))
