"""Checks of the workloads wing: `rules` and `companions`.

`rules` finds rules and UVS objects whose status reports a problem, or whose status is out of date; `companions` those
that do not start, those that do not end, and Pods that only look like companions.

In an infra cluster `rules` reads the stored rules, in a tenant's cluster the objects that its users wrote. The
controller and the agent judge these objects and write the statuses; the check reports what the statuses say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

from app.doctor import acting, commands, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import (
    Check,
    Finding,
    depends_on,
    error,
    guarded,
    info,
    more_of,
    of_each,
    or_default,
    sound,
    topic,
    warning,
)
from app.kube.resources import PODS, Resource
from app.placement.checks import Dpus, dpus_of
from app.tenancy.agent.outages import NOT_CONNECTED
from app.text import moment, several
from app.wire import JSON
from app.workloads import model as workloads
from app.workloads.companions.marks import companion_of

PATIENCE = 300.0
"""Seconds in which a status may be late, and a companion starts, or ends after its grace period."""
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
_RELEASED = '{"metadata":{"finalizers":null}}'


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
        for finding in (*_reported(it), *_conditions(it, cluster.now())):
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


def _reported(it: objects.Object) -> Iterator[Finding]:
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


def _conditions(it: objects.Object, now: datetime) -> Iterator[Finding]:
    """What the conditions of a rule say that is no error of its own: it matches nothing, or companions do not run."""
    matched, running = objects.condition(it.json, "Matched"), objects.condition(it.json, "Running")
    if matched.get("status") == "False":
        bad, keeper = (warning, _keeper(it) or "own") if matched.get("reason") == "ImpossibleKey" else (info, "")
        yield bad("BERTH3005", it, case=keeper, said=matched.get("message"))
    late = running.get("reason") != "NoCompanion" and objects.lasts(running, now) > PATIENCE
    if running.get("status") == "False" and late:
        because = (topic("companions", it.namespace, it.name),)
        yield warning("BERTH3006", it, said=running.get("message"), because=because)


async def _companions(cluster: Cluster) -> AsyncIterator[Finding]:
    # Without the nodes, what the scheduler says has to do.
    dpus, pods = await or_default(dpus_of(cluster), None), cluster.pods(label_selector=workloads.COMPANION)
    async for finding in of_each(pods, lambda pod: _judged(cluster, pod, dpus), most=_MOST, noun="companion"):
        yield finding


def _judged(cluster: Cluster, pod: JSON, dpus: Dpus | None) -> Finding | None:
    it, now = objects.Object(PODS, pod), cluster.now()
    try:
        companion = companion_of(pod)
    except ValueError as mistake:
        return warning("BERTH3101", it, label=workloads.COMPANION, mistake=mistake)
    if (late := objects.overdue(pod, now)) is not None:
        held = pod["metadata"].get("finalizers") or []
        case = "held" if held else ""
        return error("BERTH3102", it, case=case, late=late, held=held, patch=_RELEASED) if late > PATIENCE else None
    age = objects.age(pod, now)
    if objects.status(pod).get("phase") != "Pending" or age <= PATIENCE:
        return None
    reason, fix = _why(pod, dpus)
    topics, because = (topic("companions", *companion.rule),), (topic("start", it.namespace, it.name),)
    return error("BERTH3103", it, age=age, reason=reason, command=fix, explains=topics, because=because)


def _why(pod: JSON, dpus: Dpus | None) -> tuple[str, str]:
    """The reason, and the command that fixes it: from the node that the Pod requires, else from the Pod's status."""
    describe = commands.kubectl("describe", "pod", pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
    if objects.spec(pod).get("nodeName"):
        if (waiting := next(objects.waiting_containers(pod), None)) is None:
            return "it has a node, and its containers are not started", describe
        return plain("container {}: {}: {}".format(*waiting).rstrip(": ")), describe
    if dpus is not None and (problem := dpus.problem(pod)) is not None:
        return problem
    return plain(objects.condition(pod, "PodScheduled").get("message") or "the scheduler has not said why"), describe


RULES_CHECK = Check("rules", (_rules,))
COMPANIONS_CHECK = Check("companions", (_companions,))
