"""Check `rules`: rules and UVS objects whose status reports a problem, or whose status is out of date.

In an infra cluster it reads the stored rules, in a tenant's cluster the objects that its users wrote. The controller
and the agent judge these objects and write the statuses; this check reports what the statuses say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

from app.doctor import acting, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, depends_on, error, guarded, info, more_of, sound, topic, warning
from app.kube.resources import Resource
from app.tenancy.agent.outages import NOT_CONNECTED
from app.text import moment, several
from app.workloads import model as workloads

PATIENCE = 300.0
"""Seconds in which a status may be late."""
_MOST = 100
_WATCHERS: dict[Resource, str] = {
    workloads.TENANT_RULES: "controller",
    workloads.ADMIN_RULES: "controller",
    workloads.WORKLOAD_RULES: "agent",
    **dict.fromkeys(workloads.UVS_RESOURCES, "agent"),
}
"""Who writes the status."""
_REFUSED = (
    "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}: "
    '{.status.rules.admin[?(@.status.result=="error")].status.message}{"\\n"}{end}'
)
"""Of each Workload what its status says of rules of the admin that do not serve it."""


async def _rules(cluster: Cluster) -> AsyncIterator[Finding]:
    count = Counter[Resource]()
    findings = [
        finding
        for resource, role in _WATCHERS.items()
        async for finding in guarded(_of_kind(cluster, resource, role, count))
    ]
    if len(findings) > _MOST:
        findings.sort(key=lambda finding: -finding.severity)
        findings[_MOST:] = [more_of(findings[_MOST].severity, several(len(findings) - _MOST, "more object"))]
    for finding in findings:
        yield finding
    if count:
        yield sound(count.total(), "object")


async def _of_kind(cluster: Cluster, resource: Resource, role: str, count: Counter[Resource]) -> AsyncIterator[Finding]:
    late: list[str] = []
    apart: list[str] = []
    said = ""
    async for obj in cluster.paged(resource):
        if objects.labels(obj).get(workloads.MIRROR):
            continue  # its status is that of the Pod that it shows
        count[resource] += 1
        it, ready = objects.Object(resource, obj), objects.condition(obj, "Ready")
        if ready.get("reason") == NOT_CONNECTED:
            said = said or plain(ready.get("message"))
            apart.append(it.subject)
            continue
        for finding in (*_judged(it), *_companions(it, cluster.now())):
            yield finding
        if objects.unseen(obj) and objects.unchanged(obj, cluster.now()) > PATIENCE:
            late.append(it.subject)
    if late:
        yield await acting.late(cluster, role, "BERTH3002", late)
    if apart:
        look = cluster.doctor("--only", "agent")
        because, case = (topic("link", role), *depends_on(role)), _group(resource)
        yield error("BERTH3001", acting.together(apart), said, command=look, case=case, because=because)


def _group(resource: Resource) -> str:
    """The word of a kind in cases of findings."""
    return "uvs" if resource in workloads.UVS_RESOURCES else resource.kind


def _judged(it: objects.Object) -> Iterator[Finding]:
    said, ready = objects.status(it.json), objects.condition(it.json, "Ready")
    reason, message = str(ready.get("reason") or ""), said.get("message") or ready.get("message") or ""
    if said.get("result") == "error" or (ready.get("status") == "False" and reason != "Waiting"):
        text = f"{reason}: {message}" if reason and reason not in message else message or "it says no reason"
        yield error("BERTH3001", it, plain(text), case=f"{_keeper(it)} {reason} {_group(it.resource)}")
    elif it.resource == workloads.ADMIN_RULES and said.get("message") and said["message"] != ready.get("message"):
        # Beside how many companions there are.
        yield warning("BERTH3003", it, said=said["message"], kind=objects.plural(workloads.WORKLOADS), shown=_REFUSED)
    elif reason == "Waiting":
        since = moment(ready.get("lastTransitionTime"))
        yield info("BERTH3004", it, said=message, since=f", since {since:%Y-%m-%d %H:%M} UTC" if since else "")


def _keeper(it: objects.Object) -> str:
    """Whether the agent would undo what is changed here: the rule is the tenant's."""
    kept = it.resource == workloads.TENANT_RULES and objects.labels(it.json).get(workloads.RULE_OWNER)
    return "kept" if kept == workloads.AGENT_OWNER else ""


def _companions(it: objects.Object, now: datetime) -> Iterator[Finding]:
    """What the conditions of a rule say that is no error of its own: it matches nothing, or companions do not run."""
    matched, running = objects.condition(it.json, "Matched"), objects.condition(it.json, "Running")
    if matched.get("status") == "False":
        bad, keeper = (warning, _keeper(it) or "own") if matched.get("reason") == "ImpossibleKey" else (info, "")
        yield bad("BERTH3005", it, case=keeper, said=matched.get("message"))
    late = running.get("reason") != "NoCompanion" and objects.lasts(running, now) > PATIENCE
    if running.get("status") == "False" and late:
        because = (topic("companions", it.namespace, it.name),)
        yield warning("BERTH3006", it, said=running.get("message"), because=because)


CHECK = Check("rules", (_rules,))
