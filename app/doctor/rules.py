"""Check `rules`: rules and UVS objects whose status reports a problem, or whose status is out of date.

In an infra cluster it reads the stored rules, in a tenant's cluster the objects that its users wrote. The controller
and the agent judge these objects and write the statuses; this check reports what the statuses say.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

from app.doctor import acting, commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import (
    Check,
    Finding,
    companions_topic,
    depends_on,
    error,
    guarded,
    info,
    link_topic,
    more_of,
    plain,
    sound,
    warning,
)
from app.kube.resources import Resource
from app.tenancy.agent.outages import NOT_CONNECTED
from app.text import moment, several
from app.wire import JSON
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
        findings.sort(key=lambda one: -one.severity)
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
        ready = objects.condition(obj, "Ready")
        if ready.get("reason") == NOT_CONNECTED:
            said = said or plain(ready.get("message"))
            apart.append(objects.subject(resource.kind, obj))
            continue
        for finding in (*_judged(resource, obj), *_companions(resource, obj, cluster.now())):
            yield finding
        if objects.unseen(obj) and objects.unchanged(obj, cluster.now()) > PATIENCE:
            late.append(objects.subject(resource.kind, obj))
    if late:
        yield await acting.late(cluster, role, "BERTH3002", late)
    if apart:
        look = f"berth doctor --namespace {cluster.namespace} --only agent"
        because = (link_topic(role), *depends_on(role))
        follows = _consequence(resource, NOT_CONNECTED)
        yield error("BERTH3001", acting.together(apart), said, follows, look, because=because)


def _judged(resource: Resource, obj: JSON) -> Iterator[Finding]:
    said, ready, about = objects.status(obj), objects.condition(obj, "Ready"), objects.subject(resource.kind, obj)
    reason, message = str(ready.get("reason") or ""), said.get("message") or ready.get("message") or ""
    if said.get("result") == "error" or (ready.get("status") == "False" and reason != "Waiting"):
        text = f"{reason}: {message}" if reason and reason not in message else message or "it says no reason"
        yield error("BERTH3001", about, plain(text), _consequence(resource, reason), _command(resource, obj, reason))
    elif resource == workloads.ADMIN_RULES and said.get("message") and said["message"] != ready.get("message"):
        # Beside how many companions there are.
        command = commands.kubectl(
            "get", objects.plural(workloads.WORKLOADS), "--all-namespaces", "--output", shlex.quote(_REFUSED)
        )
        yield warning("BERTH3003", about, plain(said["message"]), command=f"{command} | grep -v ': $'")
    elif reason == "Waiting":
        since = moment(ready.get("lastTransitionTime"))
        yield info("BERTH3004", about, plain(message) + (f", since {since:%Y-%m-%d %H:%M} UTC" if since else ""))


def _companions(resource: Resource, obj: JSON, now: datetime) -> Iterator[Finding]:
    """What the conditions of a rule say that is no error of its own: it matches nothing, or companions do not run."""
    about = objects.subject(resource.kind, obj)
    matched, running = objects.condition(obj, "Matched"), objects.condition(obj, "Running")
    if matched.get("status") == "False":
        impossible = matched.get("reason") == "ImpossibleKey"
        found, command = (warning, _command(resource, obj, "")) if impossible else (info, "")
        yield found("BERTH3005", about, plain(matched.get("message")), command=command)
    since = moment(running.get("lastTransitionTime"))
    late = since is not None and (now - since).total_seconds() > PATIENCE
    if running.get("status") == "False" and running.get("reason") != "NoCompanion" and late:
        metadata = obj["metadata"]
        because = (companions_topic(metadata["namespace"], metadata["name"]),)
        yield warning("BERTH3006", about, plain(running.get("message")), because=because)


def _consequence(resource: Resource, reason: str) -> str:
    if resource in workloads.UVS_RESOURCES:
        return "the infra cluster has not what the object describes"
    if resource == workloads.WORKLOAD_RULES:
        return "the infra cluster does not follow the rule as it is written: it has an older one, or none"
    if reason == "InvalidRule":
        return "no workload gets a companion by it"
    return "workloads that match it are without their companions"


def _command(resource: Resource, obj: JSON, reason: str) -> str:
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    if reason == "QuotaExceeded":
        return commands.kubectl("edit", "resourcequota", namespace=namespace)
    if reason in ("NamespaceMissing", "NamespaceTerminating"):
        return commands.kubectl("describe", "namespace", namespace)
    if resource == workloads.TENANT_RULES and objects.labels(obj).get(workloads.RULE_OWNER) == workloads.AGENT_OWNER:
        # The agent would undo what is changed here: the rule is the tenant's.
        command = commands.edit(workloads.WORKLOAD_RULES, name, namespace=workloads.SYSTEM_NAMESPACE)
        return f"{command}  # in the tenant's cluster"
    return commands.edit(resource, name, namespace=namespace)


CHECK = Check("rules", (_rules,))
