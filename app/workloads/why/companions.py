"""The verdicts on companions, on the Workloads that they are for, and on their mirrors in a tenant's cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.finalizers import whose
from app.doctor.model import Finding, error, topic, warning
from app.doctor.objects import Object
from app.kinds.requests import pod_requests
from app.kube import quantity
from app.kube.resources import PODS, Resource
from app.placement.checks import Dpus, dpus_of
from app.placement.model import HOST_LABEL, TENANT_LABEL
from app.text import moment, several
from app.why.model import Asking, State, Verdict, fine, get, judged, of_findings, or_else, read, stuck, waits
from app.why.pods import standing
from app.wire import JSON, mapping
from app.workloads import model as workloads
from app.workloads.companions.marks import Companion, companion_of
from app.workloads.controller.stored import project_workload

PATIENCE = 300.0
"""Seconds in which a status may be late, and a companion starts, or ends after its grace period."""
_OF_TEMPLATE = objects.FAILING | {"Error"}
"""Reasons of companions that do not run which a change of their template ends."""
CORRECT = "correct spec.template: its image, its command or what it mounts"
CORRECT_POD = "correct the Pod: its image, its command or what it mounts"
_CORDONED = "were unschedulable"
"""What a scheduler says of nodes that are cordoned."""
_LOOKED_AT = 20
"""Companions of one rule that are judged."""


def judge_companion(it: Object, now: datetime) -> Asking[Verdict | None]:
    """Whose companion a Pod is, and why no DPU takes it."""
    if workloads.COMPANION not in objects.labels(it.json) or not it.json["metadata"].get("uid"):
        return None
    dpus = yield from or_else(read(dpus_of), None)
    finding = yield from examined(it, now, dpus)
    try:
        companion = companion_of(it.json)
    except ValueError:
        return of_findings("is no companion", [finding] if finding else [])
    text = yield from _whose(companion)
    asks = ", ".join(_wishes(it.json, dpus))
    bad = of_findings(text, [finding] if finding else [])
    if objects.status(it.json).get("phase") != "Pending" or it.json["metadata"].get("deletionTimestamp"):
        return replace(bad or fine(text), asks=asks)
    reason, fix = yield from reason_of(it.json, dpus)
    hopeless = dpus is not None and refused_by(it.json, dpus) is not None
    verdict = bad or (stuck(text, fix=fix) if hopeless else waits(text))
    return replace(verdict, asks=asks, because=(reason,))


def examined(it: Object, now: datetime, dpus: Dpus | None) -> Asking[Finding | None]:
    """What the doctor finds of a Pod with the label of companions."""
    pod = it.json
    try:
        companion = companion_of(pod)
    except ValueError as mistake:
        return warning("BERTH3101", it, label=workloads.COMPANION, mistake=mistake)
    if (late := objects.overdue(pod, now)) is not None:
        held = whose(pod["metadata"].get("finalizers") or ())
        return error("BERTH3102", it, case="held" if held else "", late=late, held=held) if late > PATIENCE else None
    age = objects.age(pod, now)
    if objects.status(pod).get("phase") != "Pending" or age <= PATIENCE:
        return None
    reason, fix = yield from reason_of(pod, dpus)
    topics, because = (topic("companions", *companion.rule),), (topic("start", it.namespace, it.name),)
    return error("BERTH3103", it, age=age, reason=reason, command=fix, explains=topics, because=because)


def reason_of(pod: JSON, dpus: Dpus | None) -> Asking[tuple[str, str]]:
    """The reason, and the command that fixes it: from the node that the Pod requires, else from the Pod's status."""
    describe = commands.kubectl("describe", "pod", pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
    if objects.spec(pod).get("nodeName"):
        if (waiting := next(objects.waiting_containers(pod), None)) is None:
            return "it has a node, and its containers are not started", describe
        return plain("container {}: {}: {}".format(*waiting).rstrip(": ")), describe
    if dpus is not None and (problem := refused_by(pod, dpus)) is not None:
        reason, fix = problem
        return reason, fix or (yield from _edit(companion_of(pod)))
    return plain(objects.condition(pod, "PodScheduled").get("message") or "the scheduler has not said why"), describe


def refused_by(pod: JSON, dpus: Dpus) -> tuple[str, str] | None:
    """Why no DPU takes the Pod, with the command that fixes it; "" where that is a change of the rule."""
    if (problem := dpus.problem(pod)) is not None:
        return problem
    return (text, "") if (text := dpus.unmatched(pod)) else None


def _edit(companion: Companion) -> Asking[str]:
    """The command that changes the template of the rule, where the rule is kept."""
    resource = workloads.ADMIN_RULES if companion.of_admin else workloads.TENANT_RULES
    rule = None if companion.of_admin else (yield from or_else(get(resource, *reversed(companion.rule)), None))
    return edit(rule or objects.named(resource, companion.rule[1], companion.rule[0]))


def edit(rule: Object) -> str:
    """The command that changes a rule: the agent would undo what is changed in a copy of its own."""
    if is_kept(rule):
        system = workloads.SYSTEM_NAMESPACE
        return f"{commands.edit(workloads.WORKLOAD_RULES, rule.name, namespace=system)} --kubeconfig TENANT"
    return commands.edit(rule.resource, rule.name, namespace=rule.namespace)


def is_kept(rule: Object) -> bool:
    """Whether an agent keeps it, by the rule of its tenant's cluster."""
    return (
        rule.resource == workloads.TENANT_RULES
        and objects.labels(rule.json).get(workloads.RULE_OWNER) == workloads.AGENT_OWNER
    )


def _whose(companion: Companion) -> Asking[str]:
    resource = workloads.ADMIN_RULES if companion.of_admin else workloads.TENANT_RULES
    namespace, name = companion.workload
    workload = yield from or_else(get(workloads.WORKLOADS, name, namespace), None)
    shown = f"Workload {namespace}/{name}" if workload is None else pod_of(workload)
    return f"companion of {resource.kind} {'/'.join(companion.rule)} for {shown}"


def pod_of(workload: Object) -> str:
    """The Pod that a Workload stands for, as its tenant knows it."""
    metadata = objects.spec(workload.json).get("metadata") or {}
    tenant = workloads.tenant_name(workload.namespace)
    return f"Pod {metadata.get('resourceNamespace')}/{metadata.get('resourceName')} of tenant {tenant}"


def _wishes(pod: JSON, dpus: Dpus | None) -> Iterator[str]:
    """The place that a companion is for, its node selector, and what its containers ask for."""
    if dpus is not None:
        host, tenant = dpus.place_of(pod)
        yield f"a DPU of {f'host {host}' if host else f'tenant {tenant}' if tenant else 'any tenant'}"
    for key, value in (objects.spec(pod).get("nodeSelector") or {}).items():
        yield f"node selector {key}={value}"
    with suppress(AttributeError, TypeError, ValueError):  # what no API server has defaulted
        for name, amount in sorted(pod_requests(pod).items()):
            if amount:
                yield f"{name} {quantity.canonical(f'{amount:f}')}"


def worst_of(resource: Resource, names: Sequence[tuple[str, str]]) -> Asking[tuple[str, Verdict | None]]:
    """The subject and the verdict of the worst of these objects, by their namespaces and names."""
    subject, worst = "", None
    for namespace, name in names[:_LOOKED_AT]:
        verdict = yield from or_else(judged(resource, name, namespace), None)
        if verdict is not None and verdict.state and (worst is None or verdict.state > worst.state):
            subject, worst = f"{resource.kind} {namespace}/{name}", verdict
    return subject, worst


async def unwell(cluster: Cluster, rule: Object) -> list[tuple[str, str]]:
    """The first companions of a rule that do not run, as (namespace, name); in a tenant's cluster their mirrors."""
    names = list[tuple[str, str]]()
    if rule.resource == workloads.WORKLOAD_RULES:
        label, mark, value, resource = workloads.MIRROR, workloads.RULE_NAME, rule.name, workloads.UVS_PODS
    else:
        label, mark, resource = workloads.COMPANION, workloads.RULE, PODS
        value = f"{rule.namespace}/{rule.name}"
    async for obj in cluster.paged(resource, namespace=rule.namespace, label_selector=label):
        metadata = obj["metadata"]
        if (metadata.get("annotations") or {}).get(mark) != value:
            continue
        if (objects.waits_for(obj) if resource == PODS else mirrored(obj)) is not None:
            names.append((metadata["namespace"], metadata["name"]))
        if len(names) == _LOOKED_AT:
            break
    return names


def mirrored(uvs_pod: JSON) -> tuple[str, str] | None:
    """As `waits_for`, of the Pod that a UVSPod shows or stands for."""
    said, ready = objects.status(uvs_pod), objects.condition(uvs_pod, "Ready")
    phase = str(said.get("phase") or "")
    if ready.get("status") == "True" and said.get("pod"):
        return objects.waits_for(_behind(uvs_pod))
    if ready.get("status") == "True" and phase in ("Running", "Succeeded"):
        return None
    reason = str(ready.get("reason") or "")
    return (phase or reason or "NotReady"), plain(ready.get("message") or said.get("message") or "")


def _behind(uvs_pod: JSON) -> JSON:
    """The Pod in the infra cluster, as far as its UVSPod shows it."""
    said, pod = objects.status(uvs_pod), mapping(objects.spec(uvs_pod).get("object"))
    spec = {**mapping(pod.get("spec")), "nodeName": said.get("nodeName") or ""}
    metadata = {"name": uvs_pod["metadata"]["name"], "creationTimestamp": uvs_pod["metadata"].get("creationTimestamp")}
    status = {**mapping(said.get("pod")), "phase": said.get("phase") or "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def shown_verdict(it: Object, now: datetime) -> Asking[Verdict | None]:
    """The verdict of the judge of Pods on the Pod that a UVSPod shows; None if it does not show why it waits."""
    if not objects.status(it.json).get("pod") or mirrored(it.json) is None:
        return None
    verdict = yield from standing(Object(PODS, _behind(it.json)), now)
    reason, _ = mirrored(it.json) or ("", "")
    because = tuple(cause for cause in verdict.because if cause) or (reason,)
    if _CORDONED in " ".join(because):
        step = "ask the admin of the infra cluster to uncordon a DPU: those that fit are cordoned"
        return replace(verdict, because=because, fix="", next=step)
    step = CORRECT_POD if reason in _OF_TEMPLATE else ""
    return replace(verdict, because=because, fix="", next=step)


def judge_mirror(it: Object, now: datetime) -> Asking[Verdict]:
    """What a UVSPod shows of the Pod in the infra cluster, where it can be changed."""
    name = (it.json["metadata"].get("annotations") or {}).get(workloads.RULE_NAME) or "?"
    pod, places = mapping(objects.spec(it.json).get("object")), Dpus([], HOST_LABEL, TENANT_LABEL)
    tenant = places.place_of(pod)[1]
    home, where = (
        workloads.tenant_namespace(tenant or "NAME"),
        f"{workloads.tenant_namespace(tenant)}/" if tenant else "",
    )
    text = f"mirrors companion {where}{it.name} of the infra cluster, by WorkloadRule {it.namespace}/{name}"
    more = f"berth why pod/{it.name} -n {home} --kubeconfig INFRA"
    waiting, phase = mirrored(it.json), objects.status(it.json).get("phase")
    since = moment(objects.condition(it.json, "Ready").get("lastTransitionTime"))
    if waiting is None:
        return fine(f"{phase}: {text}", since=since, more=more)
    rule = yield from or_else(get(workloads.WORKLOAD_RULES, name, it.namespace), None)
    asks = ", ".join(_wishes(pod, places))
    shown = yield from shown_verdict(it, now)
    verdict = _by_rule(it, waiting, rule) if shown is None else replace(shown, text=f": {waiting[0]}")
    because, next_step = list(verdict.because), verdict.next
    cordoned = _CORDONED in " ".join(because)
    mended = verdict.state > State.waits and not cordoned
    if "Unschedulable" in (waiting[0], verdict.text) and not cordoned:
        because.insert(1, f"no DPU takes it{f': it asks for {asks}' if asks else ''}")
        admin = "give the admin of the infra cluster the command of the last line"
        next_step = f"have spec.template ask for less, or {admin}"
    elif mended:
        next_step = CORRECT
    return replace(
        verdict,
        text=f"{text}, which does not run{verdict.text if shown else ''}",
        since=verdict.since or since,
        asks=asks,
        because=tuple(because),
        fix=edit(rule) if mended and rule is not None else "",
        next=next_step,
        more=more,
    )


def _by_rule(it: Object, waiting: tuple[str, str], rule: Object | None) -> Verdict:
    """Of a mirror that has the phase alone, as one of an older gateway: its rule counts why companions wait.

    The text is the reason of most of them.
    """
    running = objects.condition(rule.json, "Running") if rule is not None else {}
    reason, message = waiting
    because = [f"{reason}: {message}" if message and reason not in message else message or reason]
    if running.get("status") == "False" and running.get("message"):
        because.append(f"of all companions of the rule, {plain(running['message'])}")
    ready = str(objects.condition(it.json, "Ready").get("reason") or "")
    standings = [str(running.get("reason") or ""), ready, reason]
    cause = next((standing for standing in standings if standing in {"Unschedulable"} | _OF_TEMPLATE), "")
    hopeless = objects.status(it.json).get("phase") == "Failed" or cause
    return Verdict(State.stuck if hopeless else State.waits, cause, because=tuple(because))


def judge_workload(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Which rules serve a Workload, and why one does not."""
    try:
        workload = project_workload(it.json)
    except ValueError as problem:
        text = plain(str(problem))
        return Verdict(State.broken, "cannot be used", because=(text,), so="it has no companions", more=_shown(it))
    where = f"on {workload.node_name}" if workload.node_name else "without a node"
    entries = list(_entries(it))
    text = f"{pod_of(it)} {where}; {several(len(entries), 'rule')} {'matches' if len(entries) == 1 else 'match'}"
    problems, companions, waiting = list[tuple[Resource, str, str]](), list[tuple[str, str]](), list[str]()
    for resource, entry in entries:
        status = entry.get("status") or {}
        if status.get("result") == "error":
            problems.append((resource, str(entry.get("id")), plain(status.get("message") or status.get("reason"))))
        elif place := status.get("objRef"):
            companions.append((str(place.get("namespace")), str(place.get("name"))))
        elif status.get("message"):
            waiting.append(f"{resource.kind} {entry.get('id')}: {plain(status['message'])}")
    if problems:
        causes = tuple(f"{resource.kind} {key}: {message}" for resource, key, message in problems)
        resource, key, _ = problems[0]
        namespace, _, name = key.partition("/")
        rule = yield from or_else(get(resource, name, namespace), None)
        fix = edit(rule) if rule else ""
        return stuck(text, because=causes, so="it has no companions by these rules", fix=fix, more=_shown(it))
    subject, worst = yield from worst_of(PODS, companions)
    verdict = waits(text, because=tuple(waiting), more=_shown(it)) if waiting else fine(text, more=_shown(it))
    if worst is None:
        return verdict
    return Verdict(worst.state, text, because=tuple(waiting), more=_shown(it)).after(worst, of=subject)


def _entries(it: Object) -> Iterator[tuple[Resource, JSON]]:
    rules = objects.status(it.json).get("rules") or {}
    for kind, resource in (("tenant", workloads.TENANT_RULES), ("admin", workloads.ADMIN_RULES)):
        yield from ((resource, entry) for entry in rules.get(kind) or () if isinstance(entry, dict))


def _shown(it: Object) -> str:
    return commands.kubectl("get", it.plural, it.name, "--output", "yaml", namespace=it.namespace)
