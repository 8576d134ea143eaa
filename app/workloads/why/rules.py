"""The verdicts on rules and UVS objects: as their statuses tell, over their companions and the link to the gateway.

A rule that matches nothing is compared with what there is: the workload that lacks least, and what it lacks.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from app.doctor import acting, commands, objects
from app.doctor.catalog import plain
from app.doctor.cluster import EVERYWHERE, Cluster
from app.doctor.installed import Installed, read_deployment
from app.doctor.model import Finding, error, info, topic, warning
from app.doctor.objects import Object
from app.explain.compared import ComparedWorkload, live_workloads
from app.explain.manifests import Manifests
from app.explain.model import Manifest
from app.explain.rules import Comparison
from app.kube.resources import DEPLOYMENTS, PODS, Resource
from app.placement.model import PlacementOptions
from app.tenancy.agent.outages import NOT_CONNECTED
from app.text import moment, several
from app.why.model import Asking, State, Verdict, broken, fine, judged, of_findings, or_else, read, stuck, waits
from app.why.standing import by_conditions, describe
from app.wire import JSON
from app.workloads import model as workloads
from app.workloads.rules.key_reach import NEVER
from app.workloads.rules.problems import RuleError
from app.workloads.why import companions
from app.workloads.why.companions import PATIENCE, edit, is_kept, unwell, worst_of

WATCHERS: dict[Resource, str] = {
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
_OUTAGE = re.compile(r"not connected since (?P<since>\S+) because (?P<cause>.+)", re.DOTALL)
_SUSPENDED = re.compile(r"tenant (?P<tenant>[-a-z0-9]+) is suspended")
_TURN = 500
"""Workloads that are compared in one go."""


def judge_rule(it: Object, now: datetime) -> Asking[Verdict | None]:
    """Why a rule has the companions that it has."""
    if it.json["metadata"].get("deletionTimestamp"):
        return by_conditions(it, now)
    if (ignored := (yield from misplaced(it))) is not None:
        return ignored
    if not it.json["metadata"].get("uid"):
        return (yield from _planned(it))
    if cut_off(it):
        return (yield from _cut_off(it))
    if objects.unseen(it.json):
        return (yield from _unseen(it, now))
    status, findings = objects.status(it.json), [*reported(it), *conditions(it, now)]
    matched, created, runs = (int(status.get(name) or 0) for name in ("matched", "created", "running"))
    text = f"{created} of {several(matched, 'companion')} exist, {runs} run"
    if not matched and objects.condition(it.json, "Matched").get("status") == "False":
        return (yield from _without_match(it, now))
    verdict = of_findings(text, findings) or fine(text)
    verdict = replace(verdict, more=verdict.more or describe(it))
    if runs >= created:
        return verdict
    resource = workloads.UVS_PODS if it.resource == workloads.WORKLOAD_RULES else PODS
    names = yield from or_else(read(partial(unwell, rule=it), key=("companions", it.subject)), [])
    subject, worst = yield from worst_of(resource, names)
    if worst is None:
        return _not_running(it, verdict)
    state = max(verdict.state, worst.state)
    more = worst.more if resource == workloads.UVS_PODS else verdict.more
    return replace(verdict, state=state, since=worst.since, asks=worst.asks, more=more).after(worst, of=subject)


def _not_running(it: Object, verdict: Verdict) -> Verdict:
    """By its condition alone, where its companions may not be read."""
    running = objects.condition(it.json, "Running")
    if verdict.state and _failing(running) and not verdict.fix:
        return replace(verdict, fix=edit(it), next=companions.CORRECT)
    if verdict.state or running.get("status") != "False":
        return verdict
    return replace(verdict, state=State.waits, because=(plain(running.get("message") or running.get("reason")),))


def misplaced(it: Object) -> Asking[Verdict | None]:
    """That it is in a namespace that its role does not look at.

    None where it is in the right one, or was seen, and where the agents that there are may not be read.
    """
    if objects.status(it.json).get("conditions") or objects.status(it.json).get("result"):
        return None
    role, exists = WATCHERS[it.resource], bool(it.json["metadata"].get("uid"))
    if it.resource == workloads.TENANT_RULES:
        if it.namespace.startswith(workloads.TENANT_NAMESPACE_PREFIX):
            return None
        homes, sure, where = [], False, f"the namespaces of tenants, {workloads.TENANT_NAMESPACE_PREFIX}TENANT"
    else:
        homes, sure = [workloads.SYSTEM_NAMESPACE], True
        if role == "agent":
            agents = yield from or_else(read(_agents, key="agents"), None)
            if agents is None:
                return None
            homes, sure = sorted({agent.home for agent in agents}) or homes, bool(agents)
        where = f"namespace {' or '.join(homes)}"
    if it.namespace in homes:
        return None
    cause = f"it is in namespace {it.namespace}, and the {role} looks at {where}"
    fix, next_step = "", f"create it in {where}"
    if sure and len(homes) == 1 and exists:
        home, next_step = homes[0], f"the command creates it in {where}, and deletes it here"
        got = commands.kubectl("get", it.plural, it.name, "--output", "yaml", namespace=it.namespace)
        moved = f"{got} | sed 's/^  namespace: .*/  namespace: {home}/' | kubectl create --filename -"
        fix = f"{moved} && {commands.kubectl('delete', it.plural, it.name, namespace=it.namespace)}"
    text, codes = ("is ignored", ("BERTH3002",)) if exists else ("would be ignored", ())
    return stuck(text, because=(cause,), so="it has no effect", fix=fix, next=next_step, codes=codes)


def reported(it: Object) -> Iterator[Finding]:
    """What the status of a rule or of a UVS object says that is wrong."""
    said, ready = objects.status(it.json), objects.condition(it.json, "Ready")
    reason, message = str(ready.get("reason") or ""), said.get("message") or ready.get("message") or ""
    known = ready.get("message"), objects.condition(it.json, "Matched").get("message")
    if said.get("result") == "error" or (ready.get("status") == "False" and reason != "Waiting"):
        text = f"{reason}: {message}" if reason and reason not in message else message or "it says no reason"
        group = "uvs" if it.resource in workloads.UVS_RESOURCES else it.resource.kind
        yield error("BERTH3001", it, plain(text), case=f"{'kept' * is_kept(it)} {reason} {group}")
    elif it.resource == workloads.ADMIN_RULES and said.get("message") and said["message"] not in known:
        # Beside how many companions there are.
        yield warning("BERTH3003", it, said=said["message"], kind=objects.plural(workloads.WORKLOADS), shown=_REFUSED)
    elif reason == "Waiting":
        since = moment(ready.get("lastTransitionTime"))
        yield info("BERTH3004", it, said=message, since=f", since {since:%Y-%m-%d %H:%M} UTC" if since else "")


def conditions(it: Object, now: datetime, near: Near | None = None) -> Iterator[Finding]:
    """What the conditions of a rule say that is no error of its own: it matches nothing, or companions do not run."""
    matched, running = objects.condition(it.json, "Matched"), objects.condition(it.json, "Running")
    said = matched.get("message")
    if matched.get("status") == "False" and matched.get("reason") == workloads.IMPOSSIBLE:
        yield error("BERTH3005", it, case="kept" if is_kept(it) else "own", said=said)
    elif matched.get("status") == "False" and near is not None and near.count:
        yield info("BERTH3005", it, said=f"{said}; {'; '.join(near.causes)}", command=near.fix)
    elif matched.get("status") == "False":
        yield info("BERTH3005", it, said=said)
    late = running.get("reason") != "NoCompanion" and objects.lasts(running, now) > PATIENCE
    if running.get("status") == "False" and (late or _failing(running)):
        because = (topic("companions", it.namespace, it.name),)
        yield warning("BERTH3006", it, said=running.get("message"), because=because)


def _failing(running: JSON) -> bool:
    """Whether the condition counts companions whose containers do not come up by themselves."""
    return not objects.FAILING.isdisjoint(re.findall(r"\w+", str(running.get("message") or "")))


@dataclass(frozen=True, slots=True)
class Near:
    """Of a rule that matches none of `count` workloads: what the nearest lacks, and the command."""

    count: int
    causes: tuple[str, ...]
    fix: str


def _without_match(it: Object, now: datetime) -> Asking[Verdict]:
    """The condition may be older than what there is now; what there is says what is near."""
    near = yield from nearest(it)
    findings = [finding for finding in conditions(it, now, near) if finding.code == "BERTH3005"]
    verdict = of_findings("no companions; matches no workload", findings)
    if verdict is None:
        return fine("no companions", more=describe(it))
    if near is None or verdict.state is not State.waits:
        return replace(verdict, more=describe(it))
    text = f"no companions; matches 0 of {several(near.count, 'workload')}"
    return replace(verdict, text=text, because=near.causes, fix=verdict.fix or edit(it), more=_compare(it))


def nearest(it: Object) -> Asking[Near | None]:
    """None where workloads may not be read, the rule cannot be used, or one matches by now, or none ever can."""
    seen = yield from _workloads(it)
    if seen is None:
        return None
    try:
        comparison = yield from _compared(it, seen)
    except RuleError:
        return None
    result = comparison.done()
    if result.matched or result.impossible:
        return None
    if (near := result.nearest) is None:
        return Near(0, (f"there is no workload of {_whose(it)}",), "")
    return Near(result.missed, near.causes, edit(it) if near.meant else _compare(it))


def _compared(it: Object, seen: list[ComparedWorkload]) -> Asking[Comparison]:
    """The rule with all that it may match. Raises RuleError for one that cannot be used."""
    comparison = Comparison(Manifest("cluster", it.resource.kind, it.name, it.namespace, it.json), PlacementOptions())
    return (yield from read(partial(_look_at_all, comparison=comparison, seen=seen), key=("compared", it.subject)))


async def _look_at_all(_cluster: Cluster, comparison: Comparison, seen: list[ComparedWorkload]) -> Comparison:
    for number, workload in enumerate(seen):
        comparison.look_at(workload)
        if number % _TURN == 0:
            await asyncio.sleep(0)  # other checks have their turn
    return comparison


def _workloads(it: Object) -> Asking[list[ComparedWorkload] | None]:
    """All that the rule may be compared with; None where they may not be read."""
    resource = PODS if it.resource == workloads.WORKLOAD_RULES else workloads.WORKLOADS
    # A tenant's rule meets the tenant's Workloads: a change of those of others does not concern it.
    namespace = it.namespace if it.resource == workloads.TENANT_RULES else None
    gathered = read(partial(_gathered, resource=resource, namespace=namespace), key=("workloads", resource, namespace))
    return (yield from or_else(gathered, None))


async def _gathered(cluster: Cluster, resource: Resource, namespace: str | None) -> list[ComparedWorkload]:
    return [seen async for seen in live_workloads(cluster.client, resource, Manifests(), [], namespace=namespace)]


def _whose(it: Object) -> str:
    if it.resource == workloads.TENANT_RULES:
        return f"tenant {workloads.tenant_name(it.namespace)}"
    return "its tenants" if it.resource == workloads.ADMIN_RULES else "this cluster"


def _compare(it: Object) -> str:
    got = commands.kubectl("get", it.plural, it.name, "--output", "yaml", namespace=it.namespace)
    return f"{got} | berth explain -f -"


def _planned(it: Object) -> Asking[Verdict]:
    """One that does not exist yet: whether it would be admitted, and what it would match."""
    seen = yield from _workloads(it)
    try:
        comparison = yield from _compared(it, seen or [])
    except RuleError as problem:
        return broken("would be refused", because=tuple(map(plain, problem.problems)))
    if never := comparison.result.impossible:
        return broken("would never match", because=(NEVER.format(*never),), codes=("BERTH3005",))
    matched, missed = comparison.result.matched, comparison.result.missed
    text = f"would match {matched} of {several(matched + missed, 'workload')}"
    outcomes = (match.outcome for match in comparison.result.matches)
    if fault := next((outcome for outcome in outcomes if isinstance(outcome, workloads.Problem)), None):
        return broken(f"{text}, without companions", because=(f"{fault.reason}: {plain(fault.message)}",))
    if matched or seen is None:
        return fine(text if matched + missed else "would be created")
    near = yield from nearest(it)
    return waits(text, because=near.causes if near else ())


def cut_off(it: Object) -> str:
    """What an object says while the gateway does not accept the agent; "" while it does."""
    ready = objects.condition(it.json, "Ready")
    return plain(ready.get("message") or "not connected", 1000) if ready.get("reason") == NOT_CONNECTED else ""


def _cut_off(it: Object) -> Asking[Verdict]:
    """By what the agent says in the object, and by the agent."""
    said = cut_off(it)
    outage = _OUTAGE.fullmatch(said)
    cause, since = (outage["cause"], moment(outage["since"])) if outage else (said, None)
    fix = ""
    if suspended := _SUSPENDED.search(cause):
        fix = f"berth tenant resume {shlex.quote(suspended['tenant'])} --kubeconfig INFRA"
    so = "changes here and of its workloads wait; what is in the infra cluster stays as it was"
    verdict = stuck("its agent is not connected", since=since, because=(cause,), so=so, fix=fix, codes=("BERTH3001",))
    return (yield from _by_role(replace(verdict, more=describe(it)), "agent"))


def _unseen(it: Object, now: datetime) -> Asking[Verdict]:
    """A change that its role has not processed."""
    role = WATCHERS[it.resource]
    if objects.unchanged(it.json, now) <= PATIENCE:
        return waits("was changed", because=(f"the {role} has not processed it yet",), more=describe(it))
    finding = yield from read(partial(_late, it=it), key=("late", it.subject))
    verdict = of_findings("has no effect as it is now", [finding]) or waits("was changed")
    return (yield from _by_role(replace(verdict, more=verdict.more or describe(it)), role))


async def _late(cluster: Cluster, it: Object) -> Finding:
    return await acting.late(cluster, WATCHERS[it.resource], "BERTH3002", [it.subject])


def _by_role(verdict: Verdict, role: str) -> Asking[Verdict]:
    """The verdict, with what is wrong with the role behind it."""
    for deployment in (yield from or_else(read(partial(_running, role=role), key=("running", role)), [])):
        judgement = yield from or_else(judged(DEPLOYMENTS, deployment.name, deployment.namespace), None)
        if judgement is not None and judgement.state > State.waits:
            return verdict.after(judgement, of=deployment.subject)
    return verdict


async def _agents(cluster: Cluster) -> list[Installed]:
    """The agents of all releases. Raises ApiError where Deployments may not be listed: others may look elsewhere."""
    bodies = await cluster.listed(DEPLOYMENTS, namespace=EVERYWHERE)
    deployments = (deployment for body in bodies if (deployment := read_deployment(body)) is not None)
    return [deployment for deployment in deployments if deployment.role == "agent"]


async def _running(cluster: Cluster, role: str) -> list[Installed]:
    return await cluster.running(role)


def judge_uvs(it: Object, now: datetime) -> Asking[Verdict | None]:
    """What became of an object of a tenant in the infra cluster; or what a mirror shows."""
    if it.json["metadata"].get("deletionTimestamp"):
        return by_conditions(it, now)
    if (ignored := (yield from misplaced(it))) is not None:
        return ignored
    if not it.json["metadata"].get("uid"):
        return fine("would be sent to the infra cluster")
    if cut_off(it):
        return (yield from _cut_off(it))
    if workloads.MIRROR in objects.labels(it.json):
        return (yield from companions.judge_mirror(it, now))
    if objects.unseen(it.json):
        return (yield from _unseen(it, now))
    phase = objects.status(it.json).get("phase")
    text = "is in the infra cluster" + (f": {phase}" if phase else "")
    if (bad := of_findings("the infra cluster has not what it describes", [*reported(it)])) is not None:
        return replace(bad, more=bad.more or describe(it))
    if (shown := (yield from companions.shown_verdict(it, now))) is not None:
        fix = edit(it) if shown.state > State.waits and shown.next == companions.CORRECT_POD else ""
        return replace(
            shown, text=f"{text}: {shown.text}" if shown.text not in text else text, fix=fix, more=describe(it)
        )
    ready = objects.condition(it.json, "Ready")
    if phase in (None, "Running", "Succeeded") and ready.get("status") == "True":
        return fine(text, since=moment(ready.get("lastTransitionTime")))
    said = plain(ready.get("message") or objects.status(it.json).get("message") or "the infra cluster says no reason")
    return waits(text, because=(said,), more=describe(it))


JUDGES = {
    **dict.fromkeys((workloads.TENANT_RULES, workloads.ADMIN_RULES, workloads.WORKLOAD_RULES), judge_rule),
    **dict.fromkeys(workloads.UVS_RESOURCES, judge_uvs),
    PODS: companions.judge_companion,
    workloads.WORKLOADS: companions.judge_workload,
}
