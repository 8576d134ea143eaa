"""Check `pods`: Pods that run without what the webhook would give them today, and those that it would refuse.

Pods are read page by page and grouped by owner, so that a large cluster costs neither memory nor patience: Pods of one
owner that lack the same thing are one finding. Pods that are denied do not exist: for these, the templates are checked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, Severity, error, guarded, more_of, noted, or_default, several, sound, worst
from app.doctor.planning import Lack, Planner, Want
from app.kube.owners import controller_of
from app.kube.resources import DAEMON_SETS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from app.placement.settings import ConfinementSettings
from app.wire import JSON

LIVING = "status.phase!=Succeeded,status.phase!=Failed"
_OWNERS = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS)
_RESTARTED = ("Deployment", "StatefulSet", "DaemonSet")
_MOST = 200
"""Owners with a finding of their own."""
_SHOWN = 5
_NAMES = 50
"""Names kept of the Pods of one owner: for a command that deletes them, where the owner cannot be restarted."""
_LACKING: dict[Want, tuple[Severity, str, str]] = {
    "resources": (Severity.error, "BERTH1201", "lack{s} {text}"),
    "information": (Severity.warning, "BERTH1202", "lack{s} {text}"),
    "attachment": (Severity.error, "BERTH1203", "select{s} a network whose attachment does not exist: {text}"),
    "refused": (Severity.warning, "BERTH1204", "would be denied today: {text}"),
    "placement": (Severity.error, "BERTH1205", "lack{s} the node affinity {text}"),
}
"""Severity and code; what Pods do, with {s} for the ending of the verb."""


@dataclass(frozen=True, slots=True)
class Owner:
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
class Group:
    """Pods of one owner that lack the same; some names, and how many of them are older than Berth."""

    pods: int = 0
    older: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, pod: JSON, since: datetime | None) -> None:
        """Count it in; `since` is when Berth was registered."""
        self.pods += 1
        when = objects.created(pod)
        self.older += since is not None and when is not None and when < since
        if len(self.names) < _NAMES:
            self.names.append(pod["metadata"]["name"])

    def history(self, since: datetime | None) -> str:
        """Why, as far as dates show."""
        if since is None:
            return ""
        if self.older == self.pods:
            return f": created before Berth was registered ({since:%Y-%m-%d %H:%M} UTC)"
        if not self.older:
            return (
                ": created after Berth was registered, so it was not asked (it was away, or its registration left the "
                "Pod out), or what the Pod needs was changed later"
            )
        return f": {self.older} of {self.pods} were created before Berth was registered"


async def _pods(cluster: Cluster) -> AsyncIterator[Finding]:
    namespaces = {obj["metadata"]["name"]: obj for obj in await cluster.namespaces()}
    settings = await cluster.settings(ConfinementSettings)
    planner = Planner(settings, namespace=cluster.namespace)
    await planner.fill(cluster)
    calling = [one for one in await or_default(cluster.registered(), []) if one.injects]
    since = min((when for one in calling if (when := objects.created(one.configuration))), default=None)
    exempt = {"kube-system", cluster.namespace}

    def asked(pod: JSON) -> bool:
        """Whether the selectors, by which people opt out, leave the Pod to Berth. Conditions are no opt-out."""
        name = pod["metadata"]["namespace"]
        home = objects.namespace_labels(namespaces.get(name) or {"metadata": {"name": name}})
        selecting = (one for one in calling if one.selects_namespace(home) and one.selects_object(objects.labels(pod)))
        return name not in exempt and (not calling or any(selecting))

    groups: dict[tuple[Owner, Lack], Group] = {}
    seen = beyond = 0
    async for pod in cluster.pods(field_selector=LIVING):
        if pod["metadata"]["namespace"] in exempt or pod["metadata"].get("deletionTimestamp"):
            continue
        seen += 1
        for lack in [*await planner.placement(pod), *(await planner.networks(pod) if asked(pod) else ())]:
            key = (_owner(pod), lack)
            if key in groups or len(groups) < _MOST:
                groups.setdefault(key, Group()).add(pod, since)
            else:
                beyond += 1
    findings = [await _finding(cluster, *key, group, since, settings) for key, group in groups.items()]
    denied = _Denied(planner, asked, frozenset(one.subject for one in findings))
    for resource in _OWNERS:
        findings += [finding async for finding in guarded(denied.of_kind(cluster, resource))]
    for finding in findings:
        yield finding
    if beyond:
        yield more_of(worst(findings), several(beyond, "more Pod"))
    if seen:
        yield sound(seen, "Pod")


def _owner(pod: JSON) -> Owner:
    metadata = pod["metadata"]
    found = controller_of(metadata)
    kind, name = (found["kind"], found["name"]) if found else ("Pod", metadata["name"])
    return Owner(kind, metadata["namespace"], name)


async def _finding(
    cluster: Cluster, owner: Owner, lack: Lack, group: Group, since: datetime | None, settings: ConfinementSettings
) -> Finding:
    if owner.kind == "ReplicaSet":
        # One that may not be read stands for itself.
        found = await or_default(cluster.get(REPLICA_SETS, owner.name, namespace=owner.namespace), None)
        above = controller_of((found or {}).get("metadata") or {})
        if above.get("kind") == "Deployment":
            owner = Owner("Deployment", owner.namespace, above["name"])
    severity, code, lacks = _LACKING[lack.want]
    text = lacks.format(s="" if group.pods > 1 else "s", text=lack.text)
    if owner.kind != "Pod":
        names = ("" if group.pods <= _SHOWN else "such as ") + ", ".join(group.names[:_SHOWN])
        text = f"{several(group.pods, 'Pod')} of it ({names}) {text}"
    if lack.want in ("attachment", "refused"):
        return noted(severity, code, owner.subject, text, command=owner.edit())
    command = owner.renew(group.names)
    of_tenant = lack.want == "placement" and f"{settings.tenant_node_label}=" in lack.text
    if of_tenant and not settings.confine_tenants:
        command = f"{await commands.helm(cluster, 'webhook.args.confineTenants=true')}\n{command}"
    return noted(severity, code, owner.subject, text + group.history(since), command=command)


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
                    named = "they select a network whose attachment does not exist: "
                    text = f"its Pods are denied: {named if lack.want == 'attachment' else ''}{lack.text}"
                    yield error("BERTH1206", owner.subject, text, command=owner.edit())


def _pod(obj: JSON) -> JSON:
    template = (obj.get("spec") or {}).get("template") or {}
    metadata = {**(template.get("metadata") or {}), "namespace": obj["metadata"]["namespace"]}
    return PODS.body(metadata, spec=template.get("spec") or {})


def _wants_pods(obj: JSON) -> bool:
    """Not one that is scaled to nothing, done, suspended or on its way out."""
    spec = obj.get("spec") or {}
    done = any(objects.condition(obj, kind).get("status") == "True" for kind in ("Complete", "Failed"))
    return not (done or spec.get("suspend") or spec.get("replicas") == 0 or obj["metadata"].get("deletionTimestamp"))


CHECK = Check("pods", (_pods,))
