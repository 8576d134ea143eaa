"""Check `companions`: those that do not start, those that do not end, and Pods that only look like companions."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.dpus import Dpus, dpus_of
from app.doctor.model import Check, Finding, error, of_each, or_default, topic, warning
from app.kube.resources import PODS
from app.wire import JSON
from app.workloads.companions.marks import companion_of
from app.workloads.model import COMPANION

PATIENCE = 300.0
"""Seconds in which a companion starts, or ends after its grace period: scheduling and images take their time."""
_MOST = 100
_RELEASED = '{"metadata":{"finalizers":null}}'


async def _companions(cluster: Cluster) -> AsyncIterator[Finding]:
    # Without the nodes, what the scheduler says has to do.
    dpus, pods = await or_default(dpus_of(cluster), None), cluster.pods(label_selector=COMPANION)
    async for finding in of_each(pods, lambda pod: _judged(cluster, pod, dpus), most=_MOST, noun="companion"):
        yield finding


def _judged(cluster: Cluster, pod: JSON, dpus: Dpus | None) -> Finding | None:
    it, now = objects.Object(PODS, pod), cluster.now()
    try:
        companion = companion_of(pod)
    except ValueError as mistake:
        return warning("BERTH3101", it, label=COMPANION, mistake=mistake)
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


CHECK = Check("companions", (_companions,))
