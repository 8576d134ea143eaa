"""Check `companions`: those that do not start, those that do not end, and Pods that only look like companions."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.dpus import Dpus, dpus_of
from app.doctor.model import (
    Check,
    Finding,
    companions_topic,
    error,
    listed,
    of_each,
    or_default,
    plain,
    start_topic,
    warning,
)
from app.wire import JSON
from app.workloads.companions.marks import companion_of
from app.workloads.model import COMPANION

PATIENCE = 300.0
"""Seconds in which a companion starts, or ends after its grace period: scheduling and images take their time."""
_MOST = 100


async def _companions(cluster: Cluster) -> AsyncIterator[Finding]:
    # Without the nodes, what the scheduler says has to do.
    dpus = await or_default(dpus_of(cluster), None)
    async for finding in of_each(
        cluster.pods(label_selector=COMPANION),
        lambda pod: _judged(cluster, pod, dpus),
        most=_MOST,
        noun="companion",
    ):
        yield finding


def _judged(cluster: Cluster, pod: JSON, dpus: Dpus | None) -> Finding | None:
    metadata, now = pod["metadata"], cluster.now()
    namespace, name = metadata["namespace"], metadata["name"]
    about = f"Pod {namespace}/{name}"
    try:
        companion = companion_of(pod)
    except ValueError as mistake:
        text = f"has label {COMPANION}, but is not a companion: {plain(mistake)}"
        command = commands.kubectl("label", "pod", name, f"{COMPANION}-", namespace=namespace)
        return warning("BERTH3101", about, text, command=command)
    if (late := objects.overdue(pod, now)) is not None:
        text = f"should have ended {late / 60:.0f} minutes ago"
        command = commands.kubectl("delete", "pod", name, "--force", "--grace-period=0", namespace=namespace)
        if held := metadata.get("finalizers"):
            text += f"; held by {listed(held)}"
            patch = ["--type=merge", "--patch", '{"metadata":{"finalizers":null}}']
            command = commands.kubectl("patch", "pod", name, *patch, namespace=namespace)
        follows = "its successor cannot be made before it is gone"
        return error("BERTH3102", about, text, follows, command) if late > PATIENCE else None
    if objects.status(pod).get("phase") != "Pending" or objects.age(pod, now) <= PATIENCE:
        return None
    reason, command = _why(pod, dpus)
    text = f"is Pending for {objects.age(pod, now) / 60:.0f} minutes: {reason}"
    follows = "its workload runs without what the companion does for it on the DPU"
    topics, because = (companions_topic(*companion.rule),), (start_topic(namespace, name),)
    return error("BERTH3103", about, text, follows, command, explains=topics, because=because)


def _why(pod: JSON, dpus: Dpus | None) -> tuple[str, str]:
    """The reason, and the command that fixes it: from the node that the Pod requires, else from the Pod's status."""
    describe = commands.kubectl("describe", "pod", pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
    if (pod.get("spec") or {}).get("nodeName"):
        if (waiting := next(objects.waiting_containers(pod), None)) is None:
            return "it has a node, and its containers are not started", describe
        return plain("container {}: {}: {}".format(*waiting).rstrip(": ")), describe
    if dpus is not None and (problem := dpus.problem(pod)) is not None:
        return problem
    return plain(objects.condition(pod, "PodScheduled").get("message") or "the scheduler has not said why"), describe


CHECK = Check("companions", (_companions,))
