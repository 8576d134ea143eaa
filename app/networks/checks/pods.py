"""Check `pods`: Pods that run without what the webhook would give them today, and those that it would refuse.

What it would give is planned by the injectors that answer `/mutate`, over attachments, switches and namespaces that are
read once. Pods are read page by page and grouped by owner, which bounds memory: Pods of one owner that lack the same
thing are one finding. Pods that are denied do not exist: for these, the templates are checked. Pods that wait for a
resource that nothing offers are found by it: the scheduler says of these what it says of Pods that wait for their turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from app.admission.pods import pod_from
from app.claims.checks.roads import offer_of
from app.claims.injection.claims import extended_resources
from app.claims.roads import Offer, road_of
from app.doctor import objects
from app.doctor.catalog import listed, plain
from app.doctor.cluster import LIVING, Cluster
from app.doctor.model import (
    Check,
    Finding,
    Part,
    Severity,
    error,
    guarded,
    more_of,
    noted,
    or_default,
    sound,
    topic,
    worst,
)
from app.doctor.namespaces import SYSTEM
from app.doctor.objects import Object
from app.kube.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    STATEFUL_SETS,
    Resource,
    controller_of,
)
from app.networks.why.attachments import offered_names
from app.networks.why.lacking import LACKING, Lack, Planner, changed_later, history, remedy
from app.networks.why.makers import Owner, owner_of, topmost
from app.networks.why.namespaces import LEFT_OUT, judge_left_out
from app.networks.why.waiting import remedy_of
from app.registry import settings_of
from app.text import several
from app.why.calls import injecting
from app.why.examined import finding_of, judged
from app.why.inquiry import Inquiry
from app.why.model import Unread
from app.wire import JSON

_UNSCHEDULED = "spec.nodeName=,status.phase=Pending"
_OWNERS = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS)
_MAKERS = frozenset({"ReplicaSet", *(resource.kind for resource in _OWNERS)})
_T = TypeVar("_T")
_MOST = 200
"""Owners with a finding of their own, for each thing that their Pods lack."""
_SHOWN = 5
_NAMES = 50
"""Names kept of the Pods of one owner: for a command that deletes them, where the owner cannot be restarted."""


async def _pods(cluster: Cluster) -> AsyncIterator[Finding]:
    namespaces = {obj["metadata"]["name"]: obj for obj in await cluster.namespaces()}
    planner = Planner(await cluster.settings(settings_of("webhook")), namespace=cluster.namespace)
    await planner.fill(cluster)
    calling = await or_default(injecting(cluster), [])
    since = min((when for webhook in calling if (when := objects.created(webhook.configuration))), default=None)
    exempt = {SYSTEM, cluster.namespace}

    def asked(pod: JSON) -> bool:
        """Whether the selectors, by which people opt out, leave the Pod to Berth. Conditions are no opt-out."""
        name = pod["metadata"]["namespace"]
        home = objects.namespace_labels(namespaces.get(name) or {"metadata": {"name": name}})
        own = objects.labels(pod)
        selecting = (webhook for webhook in calling if webhook.selects_namespace(home) and webhook.selects_object(own))
        return name not in exempt and (not calling or any(selecting))

    groups, seen = _Groups[Lack](), 0
    async for pod in cluster.pods(field_selector=LIVING):
        if pod["metadata"]["namespace"] in exempt or pod["metadata"].get("deletionTimestamp"):
            continue
        seen += 1
        # Without Berth, too, Multus attaches no network that does not exist.
        lacks = [lack for lack in await planner.networks(pod) if lack.want == "attachment" or asked(pod)]
        for lack in [*await planner.placement(pod), *lacks]:
            groups.add(pod, lack, since, changed_later(pod, lack))
    findings = [await _finding(cluster, *key, group, since) for key, group in groups.found.items()]
    denied = _Denied(planner, asked, frozenset(finding.subject for finding in findings))
    for resource in _OWNERS:
        findings += [finding async for finding in guarded(denied.of_kind(cluster, resource))]
    for finding in findings:
        yield finding
    if groups.beyond:
        yield more_of(worst(findings), several(groups.beyond, "more Pod"))
    if seen:
        yield sound(seen, "Pod")


async def _finding(cluster: Cluster, owner: Owner, lack: Lack, group: _Group, since: datetime | None) -> Finding:
    owner, (severity, code) = await topmost(cluster, owner), LACKING[lack.want]
    command = await remedy(cluster, owner, lack, group.names)
    s = "" if group.pods > 1 else "s"
    why = f": {group.changed}" if group.changed else history(group.pods, group.older, since)
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
                if lack.want in ("attachment", "refused") and self.shown < _MOST:
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
    groups, missing = _Groups[str](), dict[str, str]()
    offered: Offer | None = None
    async for pod in cluster.pods(field_selector=_UNSCHEDULED):
        if pod["metadata"]["namespace"] in (SYSTEM, cluster.namespace) or pod["metadata"].get("deletionTimestamp"):
            continue
        for request in extended_resources(pod_from(pod)):
            offered = offered or await offer_of(cluster)
            if request.resource not in missing:
                road = road_of(request.resource, offered)
                missing[request.resource] = road.text if road.missing else ""
            if missing[request.resource]:
                groups.add(pod, request.resource)
    if offered is None:
        return
    names = offered_names(offered)
    others = f" (nodes offer {plain(listed(names))})" if names else ""
    inquiry = Inquiry(cluster)
    for (creator, resource), group in groups.found.items():
        owner, s = await topmost(cluster, creator), "" if group.pods > 1 else "s"
        topics = tuple(topic("start", creator.namespace, name) for name in group.names)
        values: dict[str, Any] = {"of": group.of(owner), "s": s, "resource": resource, "road": missing[resource]}
        command = await inquiry.ask(remedy_of(Object(PODS, group.first), resource, offered, owner, group.names))
        yield error("BERTH1207", owner, others=others, explains=topics, command=command, **values)
    if groups.beyond:
        yield more_of(Severity.error, several(groups.beyond, "more Pod"))


async def _left_out(cluster: Cluster) -> AsyncIterator[Finding]:
    """Namespaces about whose Pods Berth is not asked, and that have Pods which need it; none that may not be read."""
    scope = cluster.scope
    known = await or_default(cluster.get(NAMESPACES, scope), None) if scope else None
    inquiry, findings = Inquiry(cluster), list[Finding]()
    for namespace in filter(None, [known] if scope else await cluster.namespaces()):
        it = Object(NAMESPACES, namespace)
        try:
            verdict = await inquiry.ask(judge_left_out(it))
        except Unread:
            continue
        if verdict is not None and (finding := finding_of(it, verdict)) is not None:
            findings.append(finding)
    for finding in findings[:_MOST]:
        yield finding
    if len(findings) > _MOST:
        yield more_of(Severity.error, several(len(findings) - _MOST, "more Namespace"))


def _of_owner(resource: Resource, chosen: Callable[[JSON], bool] = lambda _: True) -> Part:
    """Judges objects that make Pods, but for what their Namespace explains: that is one finding for all of them."""
    judging = judged(resource, chosen=chosen)

    async def part(cluster: Cluster) -> AsyncIterator[Finding]:
        async for finding in judging(cluster):
            if finding.code != LEFT_OUT:
                yield finding

    return part


@dataclass(slots=True)
class _Group:
    """Pods of one owner that lack the same; some names, and how many of them are older than Berth.

    `changed` says that all of them were injected into, and what they need was changed since.
    """

    pods: int = 0
    older: int = 0
    changed: str = ""
    first: JSON = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def add(self, pod: JSON, since: datetime | None = None, changed: str = "") -> None:
        """Count it in; `since` is when Berth was registered."""
        self.changed = changed if changed == self.changed or not self.pods else ""
        self.first = self.first or pod
        self.pods += 1
        when = objects.created(pod)
        self.older += since is not None and when is not None and when < since
        if len(self.names) < _NAMES:
            self.names.append(pod["metadata"]["name"])

    def of(self, owner: Owner) -> str:
        """The beginning of what is said of these Pods, below their owner; "" for a Pod that owns itself."""
        if owner.kind == "Pod":
            return ""
        names = ("" if self.pods <= _SHOWN else "such as ") + ", ".join(self.names[:_SHOWN])
        return f"{several(self.pods, 'Pod')} of it ({names}) "


@dataclass(slots=True)
class _Groups(Generic[_T]):
    """Pods by their owner and what they lack; `beyond` counts those of further owners."""

    found: dict[tuple[Owner, _T], _Group] = field(default_factory=dict)
    beyond: int = 0

    def add(self, pod: JSON, lack: _T, since: datetime | None = None, changed: str = "") -> None:
        key = (owner_of(pod), lack)
        if key in self.found or len(self.found) < _MOST:
            self.found.setdefault(key, _Group()).add(pod, since, changed)
        else:
            self.beyond += 1


def _alone(pod: JSON) -> bool:
    """Not one of an owner that is judged over its Pods."""
    return controller_of(pod["metadata"]).get("kind") not in _MAKERS


CHECK = Check(
    "pods",
    (_pods, _left_out, _unoffered),
    of_users=(_left_out, _of_owner(PODS, _alone), *(_of_owner(resource) for resource in _OWNERS)),
)
