"""Check `pods`: Pods that run without what the webhook would give them today, and those that it would refuse.

Pods are read page by page and grouped by owner, so that a large cluster costs neither memory nor patience: Pods of one
owner that lack the same thing are one finding. Pods that are denied do not exist: for these, the templates are checked.
Pods that wait for a resource that nothing offers are found by it: of such a Pod the scheduler repeats that the resource
is insufficient, as of one that waits for its turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.admission.pods import pod_from
from app.claims.injection.doubled import extended_resources
from app.claims.roads import Offer, road_of
from app.doctor import commands, objects
from app.doctor.catalog import listed, plain
from app.doctor.claims_roads import offer_of
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, Severity, error, guarded, more_of, noted, or_default, sound, topic, worst
from app.doctor.namespaces import SYSTEM
from app.doctor.planning import Lack, Planner, Want
from app.doctor.pod_owners import MOST, Group, Groups, Owner, topmost
from app.kube.resources import DAEMON_SETS, DEPLOYMENTS, JOBS, PODS, STATEFUL_SETS, Resource
from app.placement.settings import ConfinementSettings
from app.registry import settings_of
from app.text import several
from app.wire import JSON

LIVING = "status.phase!=Succeeded,status.phase!=Failed"
_UNSCHEDULED = "spec.nodeName=,status.phase=Pending"
_OWNERS = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS)
_LACKING: dict[Want, tuple[Severity, str]] = {
    "resources": (Severity.error, "BERTH1201"),
    "information": (Severity.warning, "BERTH1202"),
    "attachment": (Severity.error, "BERTH1203"),
    "refused": (Severity.warning, "BERTH1204"),
    "placement": (Severity.error, "BERTH1205"),
}


async def _pods(cluster: Cluster) -> AsyncIterator[Finding]:
    namespaces = {obj["metadata"]["name"]: obj for obj in await cluster.namespaces()}
    planner = Planner(await cluster.settings(settings_of("webhook")), namespace=cluster.namespace)
    await planner.fill(cluster)
    calling = [one for one in await or_default(cluster.registered(), []) if one.injects]
    since = min((when for one in calling if (when := objects.created(one.configuration))), default=None)
    exempt = {SYSTEM, cluster.namespace}

    def asked(pod: JSON) -> bool:
        """Whether the selectors, by which people opt out, leave the Pod to Berth. Conditions are no opt-out."""
        name = pod["metadata"]["namespace"]
        home = objects.namespace_labels(namespaces.get(name) or {"metadata": {"name": name}})
        selecting = (one for one in calling if one.selects_namespace(home) and one.selects_object(objects.labels(pod)))
        return name not in exempt and (not calling or any(selecting))

    groups, seen = Groups[Lack](), 0
    async for pod in cluster.pods(field_selector=LIVING):
        if pod["metadata"]["namespace"] in exempt or pod["metadata"].get("deletionTimestamp"):
            continue
        seen += 1
        for lack in [*await planner.placement(pod), *(await planner.networks(pod) if asked(pod) else ())]:
            groups.add(pod, lack, since)
    findings = [await _finding(cluster, *key, group, since) for key, group in groups.found.items()]
    denied = _Denied(planner, asked, frozenset(one.subject for one in findings))
    for resource in _OWNERS:
        findings += [finding async for finding in guarded(denied.of_kind(cluster, resource))]
    for finding in findings:
        yield finding
    if groups.beyond:
        yield more_of(worst(findings), several(groups.beyond, "more Pod"))
    if seen:
        yield sound(seen, "Pod")


async def _finding(cluster: Cluster, owner: Owner, lack: Lack, group: Group, since: datetime | None) -> Finding:
    owner, (severity, code) = await topmost(cluster, owner), _LACKING[lack.want]
    command, settings = owner.renew(group.names), await cluster.settings(ConfinementSettings)
    if lack.want in ("attachment", "refused"):
        command = owner.edit()
    elif f"{settings.tenant_node_label}=" in lack.text and lack.want == "placement" and not settings.confine_tenants:
        command = f"{await commands.helm(cluster, 'webhook.args.confineTenants=true')}\n{command}"
    s, why = "" if group.pods > 1 else "s", group.history(since)
    return noted(severity, code, owner, of=group.of(owner), s=s, lacks=lack.text, why=why, command=command)


@dataclass(slots=True)
class _Denied:
    """Finds owners without Pods, because these are denied, but for those `reported`; `shown` counts the findings."""

    planner: Planner
    asked: Callable[[JSON], bool]
    reported: frozenset[str]
    shown: int = 0

    async def of_kind(self, cluster: Cluster, resource: Resource) -> AsyncIterator[Finding]:
        async for obj in cluster.paged(resource):
            pod, owner = _pod(obj), Owner(resource.kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
            if owner.subject in self.reported or not self.asked(pod) or not _wants_pods(obj):
                continue
            for lack in [*await self.planner.networks(pod), *await self.planner.placement(pod)]:
                if lack.want in ("attachment", "refused") and self.shown < MOST:
                    self.shown += 1
                    yield error("BERTH1206", owner, case=lack.want, lacks=lack.text, command=owner.edit())


def _pod(obj: JSON) -> JSON:
    template = objects.spec(obj).get("template") or {}
    metadata = {**(template.get("metadata") or {}), "namespace": obj["metadata"]["namespace"]}
    return PODS.body(metadata, spec=objects.spec(template))


def _wants_pods(obj: JSON) -> bool:
    """Not one that is scaled to nothing, done, suspended or on its way out."""
    spec = objects.spec(obj)
    done = any(objects.condition(obj, kind).get("status") == "True" for kind in ("Complete", "Failed"))
    return not (done or spec.get("suspend") or spec.get("replicas") == 0 or obj["metadata"].get("deletionTimestamp"))


async def _unoffered(cluster: Cluster) -> AsyncIterator[Finding]:
    groups, missing = Groups[str](), dict[str, str]()
    offered: Offer | None = None
    async for pod in cluster.pods(field_selector=_UNSCHEDULED):
        if pod["metadata"]["namespace"] in (SYSTEM, cluster.namespace) or pod["metadata"].get("deletionTimestamp"):
            continue
        for asked in extended_resources(pod_from(pod)):
            offered = offered or await offer_of(cluster)
            if asked.resource not in missing:
                road = road_of(asked.resource, offered)
                missing[asked.resource] = road.text if road.ways == ("nothing",) else ""
            if missing[asked.resource]:
                groups.add(pod, asked.resource)
    known = sorted({name for amounts in (offered.nodes.values() if offered else ()) for name in amounts if "/" in name})
    others = f" (nodes offer {plain(listed(known))})" if known else ""
    for (creator, resource), group in groups.found.items():
        owner, s = await topmost(cluster, creator), "" if group.pods > 1 else "s"
        topics = tuple(topic("start", creator.namespace, name) for name in group.names)
        said: dict[str, Any] = {"of": group.of(owner), "s": s, "resource": resource, "road": missing[resource]}
        yield error("BERTH1207", owner, others=others, explains=topics, **said)
    if groups.beyond:
        yield more_of(Severity.error, several(groups.beyond, "more Pod"))


CHECK = Check("pods", (_pods, _unoffered))
