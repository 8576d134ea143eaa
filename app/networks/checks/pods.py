"""Check `pods`: Pods that run without what the webhook would give them today, and those that it would refuse.

What it would give is planned by the injectors that answer `/mutate`, over attachments, switches and namespaces that are
read once. Pods are read page by page and grouped by owner, which bounds memory: Pods of one owner that lack the same
thing are one finding. Pods that are denied do not exist: for these, the templates are checked. Pods that wait for a
resource that nothing offers are found by it: the scheduler says of these what it says of Pods that wait for their turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, Literal, TypeVar

from app.admission.pods import pod_from
from app.claims.checks.roads import offer_of
from app.claims.injection.claims import extended_resources
from app.claims.roads import Offer, road_of
from app.doctor import commands, objects
from app.doctor.catalog import listed, plain
from app.doctor.cluster import LIVING, Cluster
from app.doctor.model import Check, Finding, Severity, error, guarded, more_of, noted, or_default, sound, topic, worst
from app.doctor.namespaces import SYSTEM
from app.explain.rehearsal import Rehearsal, review
from app.kube.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
    controller_of,
)
from app.placement.model import DPU_OF_HOST
from app.placement.settings import ConfinementSettings
from app.registry import settings_of
from app.settings.source import RoleSettings
from app.text import closest, several
from app.wire import JSON

_UNSCHEDULED = "spec.nodeName=,status.phase=Pending"
_OWNERS = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS)
_Want = Literal["resources", "information", "attachment", "refused", "placement"]
"""What a Pod lacks: devices or nodes that have them; files and annotations only; an attachment that exists;
anything at all, for it would be refused; the DPUs that it is confined to."""
_LACKING: dict[_Want, tuple[Severity, str]] = {
    "resources": (Severity.error, "BERTH1201"),
    "information": (Severity.warning, "BERTH1202"),
    "attachment": (Severity.error, "BERTH1203"),
    "refused": (Severity.warning, "BERTH1204"),
    "placement": (Severity.error, "BERTH1205"),
}
_HARD = frozenset({"resource", "node-selector"})
_RESTARTED = ("Deployment", "StatefulSet", "DaemonSet")
_T = TypeVar("_T")
_MOST = 200
"""Owners with a finding of their own, for each thing that their Pods lack."""
_SHOWN = 5
_NAMES = 50
"""Names kept of the Pods of one owner: for a command that deletes them, where the owner cannot be restarted."""


async def _pods(cluster: Cluster) -> AsyncIterator[Finding]:
    namespaces = {obj["metadata"]["name"]: obj for obj in await cluster.namespaces()}
    planner = _Planner(await cluster.settings(settings_of("webhook")), namespace=cluster.namespace)
    await planner.fill(cluster)
    calling = [webhook for webhook in await or_default(cluster.registered(), []) if webhook.injects]
    since = min((when for webhook in calling if (when := objects.created(webhook.configuration))), default=None)
    exempt = {SYSTEM, cluster.namespace}

    def asked(pod: JSON) -> bool:
        """Whether the selectors, by which people opt out, leave the Pod to Berth. Conditions are no opt-out."""
        name = pod["metadata"]["namespace"]
        home = objects.namespace_labels(namespaces.get(name) or {"metadata": {"name": name}})
        own = objects.labels(pod)
        selecting = (webhook for webhook in calling if webhook.selects_namespace(home) and webhook.selects_object(own))
        return name not in exempt and (not calling or any(selecting))

    groups, seen = _Groups[_Lack](), 0
    async for pod in cluster.pods(field_selector=LIVING):
        if pod["metadata"]["namespace"] in exempt or pod["metadata"].get("deletionTimestamp"):
            continue
        seen += 1
        for lack in [*await planner.placement(pod), *(await planner.networks(pod) if asked(pod) else ())]:
            groups.add(pod, lack, since)
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


async def _finding(cluster: Cluster, owner: _Owner, lack: _Lack, group: _Group, since: datetime | None) -> Finding:
    owner, (severity, code) = await _topmost(cluster, owner), _LACKING[lack.want]
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

    planner: _Planner
    asked: Callable[[JSON], bool]
    reported: frozenset[str]
    shown: int = 0

    async def of_kind(self, cluster: Cluster, resource: Resource) -> AsyncIterator[Finding]:
        async for obj in cluster.paged(resource):
            pod, owner = _pod(obj), _Owner(resource.kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
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
                missing[request.resource] = road.text if road.ways == ("nothing",) else ""
            if missing[request.resource]:
                groups.add(pod, request.resource)
    names = sorted({name for amounts in (offered.nodes.values() if offered else ()) for name in amounts if "/" in name})
    others = f" (nodes offer {plain(listed(names))})" if names else ""
    for (creator, resource), group in groups.found.items():
        owner, s = await _topmost(cluster, creator), "" if group.pods > 1 else "s"
        topics = tuple(topic("start", creator.namespace, name) for name in group.names)
        values: dict[str, Any] = {"of": group.of(owner), "s": s, "resource": resource, "road": missing[resource]}
        yield error("BERTH1207", owner, others=others, explains=topics, **values)
    if groups.beyond:
        yield more_of(Severity.error, several(groups.beyond, "more Pod"))


@dataclass(frozen=True, slots=True)
class _Lack:
    """One thing that a Pod lacks, in words that end a sentence."""

    want: _Want
    text: str


class Nearest:
    """The attachment that was probably meant, "" where none has a similar name.

    Many Pods miss the same one, and to look takes a hundredth of a second where there are many.
    """

    def __init__(self, known: Callable[[], Iterable[tuple[str, str]]]) -> None:
        self._known = known
        self.to = lru_cache(maxsize=1024)(self._nearest)

    def _nearest(self, namespace: str, name: str) -> str:
        keys = list(self._known())
        if near := closest(name, [key for where, key in keys if where == namespace]):
            return f"{namespace}/{near}"
        return next((f"{where}/{key}" for where, key in keys if key == name), "")


class _Planner:
    """What one Pod lacks, by each injector for itself: an opt-out of one does not concern the other."""

    def __init__(self, settings: RoleSettings, *, namespace: str) -> None:
        # A Pod that is not confined is found even where the webhook does not confine Pods.
        rehearsal = Rehearsal(settings.model_copy(update={"confine_tenants": True}), namespace)
        self._chains, self._caches = rehearsal.alone, rehearsal.caches
        stores = {cached.resource: cached.store for cached in self._caches.all}
        self._namespaces = stores[NAMESPACES]
        self._nearest = Nearest(stores[NETWORK_ATTACHMENTS].keys)

    async def fill(self, cluster: Cluster) -> None:
        await self._caches.fill(lambda cached: _objects(cluster, cached.resource, cached.only))

    async def networks(self, pod: JSON) -> list[_Lack]:
        """What the Pod's networks need and it has not."""
        decision, plan = await review(self._chains["networks"], pod, namespace=pod["metadata"]["namespace"])
        if decision.reason == "AttachmentNotFound":
            key = decision.message.partition("'")[2].partition("'")[0]
            namespace, _, name = key.partition("/")
            like = self._nearest.to(namespace, name)
            return [_Lack("attachment", f"{key}{f' (there is {like})' if like else ''}")]
        if not decision.allowed:
            return [_Lack("refused", plain(decision.message))]
        if not decision.operations:
            return []
        hard = bool(_HARD & plan.injected.keys())
        keys = ("resources", "node-selector") if hard else ("annotations", "volume", "env", "record")
        text = "; ".join(plan.audit[key] for key in keys if key in plan.audit)
        if hard:
            return [_Lack("resources", text or "equal requests and limits of its devices")]
        return [_Lack("information", text or "what its networks bring along")]

    async def placement(self, pod: JSON) -> list[_Lack]:
        """The node affinity that keeps the Pod where it belongs, and that it has not."""
        metadata = pod["metadata"]
        if ("", metadata["namespace"]) not in self._namespaces:  # it is newer than the list of namespaces
            self._namespaces.upsert({"metadata": {"name": metadata["namespace"]}})
        # A static Pod, which its kubelet shows as owned by its Node, was never scheduled.
        static = any(owner.get("kind") == "Node" for owner in metadata.get("ownerReferences") or ())
        tenant = self._namespaces.get("", metadata["namespace"])
        if static or not (tenant or DPU_OF_HOST in (metadata.get("annotations") or {})):
            return []
        # The scheduler has named the node by now; who creates a Pod must not.
        spec = {key: value for key, value in (pod.get("spec") or {}).items() if key != "nodeName"}
        decision, plan = await review(self._chains["placement"], {**pod, "spec": spec}, namespace=metadata["namespace"])
        if not decision.allowed:
            return [_Lack("refused", plain(decision.message))]
        return [_Lack("placement", plan.audit.get("affinity", "of its tenant or host"))] if decision.operations else []


async def _objects(cluster: Cluster, resource: Resource, only: tuple[str, str] | None) -> AsyncIterator[JSON]:
    if only is not None:
        if obj := await cluster.get(resource, only[1], namespace=only[0]):
            yield obj
    elif resource == NAMESPACES:
        for obj in await cluster.listed(resource):
            yield obj
    else:
        async for obj in cluster.paged(resource):
            yield obj


@dataclass(frozen=True, slots=True)
class _Owner:
    """The controller that created a Pod; for a Pod without a controller, the Pod itself."""

    kind: str
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def renew(self, pods: list[str]) -> str:
        """Recreates the Pods, one after the other where the owner can do that: only new Pods are injected into."""
        if self.kind in _RESTARTED:
            return commands.kubectl("rollout", "restart", f"{self.kind.lower()}/{self.name}", namespace=self.namespace)
        return commands.kubectl("delete", "pod", *pods, namespace=self.namespace)

    def edit(self) -> str:
        """Opens what says how the Pods are made; a Pod or a Job cannot be changed, and is shown."""
        if self.kind in ("Pod", "Job"):
            return commands.kubectl("get", self.kind.lower(), self.name, "--output", "yaml", namespace=self.namespace)
        return commands.kubectl("edit", f"{self.kind.lower()}/{self.name}", namespace=self.namespace)


@dataclass(slots=True)
class _Group:
    """Pods of one owner that lack the same; some names, and how many of them are older than Berth."""

    pods: int = 0
    older: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, pod: JSON, since: datetime | None = None) -> None:
        """Count it in; `since` is when Berth was registered."""
        self.pods += 1
        when = objects.created(pod)
        self.older += since is not None and when is not None and when < since
        if len(self.names) < _NAMES:
            self.names.append(pod["metadata"]["name"])

    def of(self, owner: _Owner) -> str:
        """The beginning of what is said of these Pods, below their owner; "" for a Pod that owns itself."""
        if owner.kind == "Pod":
            return ""
        names = ("" if self.pods <= _SHOWN else "such as ") + ", ".join(self.names[:_SHOWN])
        return f"{several(self.pods, 'Pod')} of it ({names}) "

    def history(self, since: datetime | None) -> str:
        """Why, as far as dates show."""
        if since is None:
            return ""
        if self.older == self.pods:
            return f": created before Berth was registered ({since:%Y-%m-%d %H:%M} UTC)"
        if self.older:
            return f": {self.older} of {self.pods} were created before Berth was registered"
        why = "(it was away, or its registration left the Pod out), or what the Pod needs was changed later"
        return f": created after Berth was registered, so it was not asked {why}"


@dataclass(slots=True)
class _Groups(Generic[_T]):
    """Pods by their owner and what they lack; `beyond` counts those of further owners."""

    found: dict[tuple[_Owner, _T], _Group] = field(default_factory=dict)
    beyond: int = 0

    def add(self, pod: JSON, lack: _T, since: datetime | None = None) -> None:
        key = (_owner_of(pod), lack)
        if key in self.found or len(self.found) < _MOST:
            self.found.setdefault(key, _Group()).add(pod, since)
        else:
            self.beyond += 1


def _owner_of(pod: JSON) -> _Owner:
    metadata = pod["metadata"]
    controller = controller_of(metadata) or {"kind": "Pod", "name": metadata["name"]}
    return _Owner(controller["kind"], metadata["namespace"], controller["name"])


async def _topmost(cluster: Cluster, owner: _Owner) -> _Owner:
    """The Deployment of a ReplicaSet; every other owner stands for itself, and a ReplicaSet that may not be read."""
    if owner.kind != "ReplicaSet":
        return owner
    replica_set = await or_default(cluster.get(REPLICA_SETS, owner.name, namespace=owner.namespace), None)
    above = controller_of((replica_set or {}).get("metadata") or {})
    return _Owner("Deployment", owner.namespace, above["name"]) if above.get("kind") == "Deployment" else owner


CHECK = Check("pods", (_pods, _unoffered))
