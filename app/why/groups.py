"""The verdicts on what the scheduler of Kubernetes schedules together: Pods of a PodGroup, PodGroups and Workloads.

PodGroups are beta in Kubernetes 1.37, behind the feature gate GenericWorkload. A Pod whose group is missing, or is a
gang with too few Pods, is not tried by the scheduler at all: nothing but its group says why it is Pending.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from functools import partial

from app.doctor import objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.objects import Object
from app.kube.resources import PODS, Resource, controller_of
from app.text import moment, several
from app.why.model import Asking, Unread, Verdict, absence, fine, get, judged, listed, read, stuck, waits
from app.why.standing import by_conditions, describe

GROUP = "scheduling.k8s.io"
POD_GROUPS = Resource(GROUP, "v1beta1", "podgroups", "PodGroup")
SCHEDULED_WORKLOADS = Resource(GROUP, "v1beta1", "workloads", "Workload")
SCHEDULED = "PodGroupInitiallyScheduled"
"""The condition that stays True from the first time on that the whole group was scheduled."""
_PATIENCE = 300.0
"""Seconds in which a controller creates the Pods of a group."""


def judge_pod(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Why its group keeps a Pod Pending; None of one that has a node, or no group."""
    spec, exists = objects.spec(it.json), bool(it.json["metadata"].get("uid"))
    name = str((spec.get("schedulingGroup") or {}).get("podGroupName") or "")
    if not name or spec.get("nodeName") or (objects.status(it.json).get("phase") or "Pending") != "Pending":
        return None
    text, so = "" if exists else "would stay Pending", "the scheduler does not try its Pods"
    try:
        group = yield from get(POD_GROUPS, name, it.namespace)
        if group is None:
            clause, near = yield from absence(POD_GROUPS, name, it.namespace)
            how = f"create it, or name {near} in spec.schedulingGroup of what makes the Pod" if near else "create it"
            return stuck(text, because=(clause,), so=so, next=f"its Pods are scheduled when it is there: {how}")
        verdict = yield from judged(POD_GROUPS, name, it.namespace)
    except Unread:
        return None
    if verdict is None or not verdict.state or not exists:
        return None
    return Verdict(verdict.state, "", asks=verdict.asks, so=verdict.so).after(verdict, of=group.subject)


def judge_group(it: Object, now: datetime) -> Asking[Verdict | None]:
    """Whether it has the Pods that it is scheduled with, and whether nodes take them."""
    if it.json["metadata"].get("deletionTimestamp"):
        return by_conditions(it, now)
    if not it.json["metadata"].get("uid"):
        return fine("would be created")
    scheduled = objects.condition(it.json, SCHEDULED)
    since = moment(scheduled.get("lastTransitionTime"))
    if scheduled.get("status") == "True":
        return fine("was scheduled", since=since)
    gang = (objects.spec(it.json).get("schedulingPolicy") or {}).get("gang") or {}
    minimum = int(gang.get("minCount") or 0)
    counts = yield from read(partial(_members, namespace=it.namespace), key=("Pods by PodGroup", it.namespace))
    members = counts.get(it.name, 0)
    asks = f"{several(minimum, 'Pod')} at the same time" if minimum else ""
    if members < minimum:
        there = "1 Pod names it" if members == 1 else f"{members} Pods name it"
        cause, so = f"{there}, and it needs {minimum}", "the scheduler does not try its Pods"
        missing = minimum - members
        next_step = f"is scheduled when {several(missing, 'more Pod')} with spec.schedulingGroup {it.name} exist"
        next_step += "s" * (missing == 1)
        if objects.age(it.json, now) <= _PATIENCE:
            return waits("waits for its Pods", asks=asks, because=(cause,), so=so, next=next_step, more=describe(it))
        return stuck("waits for its Pods", asks=asks, because=(cause,), so=so, next=next_step, more=describe(it))
    if not scheduled:
        return waits("is not scheduled yet", asks=asks, because=("no scheduler has looked at it",), more=describe(it))
    cause = plain(scheduled.get("message") or scheduled.get("reason"))
    text = "cannot be scheduled" if scheduled.get("reason") == "Unschedulable" else "was not scheduled"
    so = "no Pod of it starts until all can" if minimum else ""
    return stuck(text, since=since, asks=asks, because=(cause,), so=so, more=describe(it))


async def _members(cluster: Cluster, *, namespace: str) -> Counter[str]:
    """How many Pods of a namespace that are not over name each PodGroup."""
    members = Counter[str]()
    async for pod in cluster.paged(PODS, namespace=namespace):
        name = (objects.spec(pod).get("schedulingGroup") or {}).get("podGroupName")
        if name and objects.status(pod).get("phase") not in ("Succeeded", "Failed"):
            members[str(name)] += 1
    return members


def judge_workload(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """By the PodGroups that are made of its templates: the first that is not scheduled says why."""
    if not it.json["metadata"].get("uid"):
        return fine("would be created")
    groups = yield from listed(POD_GROUPS, it.namespace)
    own = [group for group in groups if _workload_of(group) == it.name]
    for group in own:
        verdict = yield from judged(POD_GROUPS, group.name, group.namespace)
        if verdict is not None and verdict.state:
            text = f"has {several(len(own), 'PodGroup')}"
            return Verdict(verdict.state, text, verdict.since, more=describe(it)).after(verdict, of=group.subject)
    if own:
        return fine(f"has {several(len(own), 'PodGroup')}, all scheduled")
    maker = objects.spec(it.json).get("controllerRef") or controller_of(it.json["metadata"])
    named = f"{maker['kind']} {maker['name']}" if maker.get("kind") else "what made it"
    return waits("has no PodGroup", because=(f"{named} has not created one of its templates",), more=describe(it))


def _workload_of(group: Object) -> str:
    return str((objects.spec(group.json).get("workloadRef") or {}).get("workloadName") or "")


JUDGES = {PODS: judge_pod, POD_GROUPS: judge_group, SCHEDULED_WORKLOADS: judge_workload}
