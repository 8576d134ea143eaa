"""Check `companions`: those that do not start, those that do not end, and Pods that only look like companions."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Sequence

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, error, listed, of_each, or_default, plain, warning
from app.kube.resources import NODES, PODS
from app.placement.model import PlacementOptions
from app.placement.plan import view_of
from app.placement.settings import PlacementSettings
from app.text import moment
from app.wire import JSON
from app.workloads.companions.marks import companion_of
from app.workloads.model import COMPANION

PATIENCE = 300.0
"""Seconds in which a companion starts, or ends after its grace period: scheduling and images take their time."""
_MOST = 100


async def _companions(cluster: Cluster) -> AsyncIterator[Finding]:
    options = (await cluster.settings(PlacementSettings)).placement
    # Without the nodes, what the scheduler says has to do.
    nodes: Sequence[JSON] | None = await or_default(cluster.listed(NODES), None)
    pods = cluster.paged(PODS, label_selector=COMPANION)
    async for finding in of_each(
        pods,
        lambda pod: _judged(cluster, pod, nodes, options),
        most=_MOST,
        noun="companion",
        well="run or end as they should",
    ):
        yield finding


def _judged(cluster: Cluster, pod: JSON, nodes: Sequence[JSON] | None, options: PlacementOptions) -> Finding | None:
    metadata, now = pod["metadata"], cluster.now()
    namespace, name, about = metadata["namespace"], metadata["name"], objects.subject(PODS.kind, pod)
    try:
        companion_of(pod)
    except ValueError as mistake:
        text = f"has label {COMPANION}, but is not a companion: {plain(mistake)}"
        command = commands.kubectl("label", "pod", name, f"{COMPANION}-", namespace=namespace)
        return warning(about, text, "the controller does not replace it when it ends, and does not delete it", command)
    ending = moment(metadata.get("deletionTimestamp"))
    if ending is not None:
        late = (now - ending).total_seconds()
        text = f"should have ended {late / 60:.0f} minutes ago"
        command = commands.kubectl("delete", "pod", name, "--force", "--grace-period=0", namespace=namespace)
        if held := metadata.get("finalizers"):
            text += f"; held by {listed(held)}"
            patch = ["--type=merge", "--patch", '{"metadata":{"finalizers":null}}']
            command = commands.kubectl("patch", "pod", name, *patch, namespace=namespace)
        follows = "its successor cannot be made before it is gone"
        return error(about, text, follows, command) if late > PATIENCE else None
    if objects.status(pod).get("phase") != "Pending" or objects.age(pod, now) <= PATIENCE:
        return None
    reason, command = _why(pod, nodes, options)
    text = f"is Pending for {objects.age(pod, now) / 60:.0f} minutes: {reason}"
    follows = "its workload is without it: what the companion does for it on the DPU is not done"
    return error(about, text, follows, command)


def _why(pod: JSON, nodes: Sequence[JSON] | None, options: PlacementOptions) -> tuple[str, str]:
    """The reason, and the command that fixes it: from the node that the Pod requires, else from the Pod's status."""
    describe = commands.kubectl("describe", "pod", pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
    if (pod.get("spec") or {}).get("nodeName"):
        if (waiting := next(objects.waiting_containers(pod), None)) is None:
            return "it has a node, and its containers are not started", describe
        return plain("container {}: {}: {}".format(*waiting).rstrip(": ")), describe
    wanted = _required(pod)
    host, tenant = wanted.get(options.host_label), wanted.get(options.tenant_node_label)
    if nodes is not None and host is not None:
        dpus = [node for node in nodes if objects.labels(node).get(options.host_label) == host]
        if not dpus:
            label = shlex.quote(f"{options.host_label}={host}")
            command = f'kubectl label node "$DPU" {label}  # DPU: the node in that host'
            return plain(f"no node is the DPU of host {host}: none has label {options.host_label}={host}"), command
        for node in dpus:
            name = node["metadata"]["name"]
            place = f"node {name}, the DPU of host {host}, is"
            if tenant is not None and objects.labels(node).get(options.tenant_node_label) != tenant:
                command = commands.set_label("node", name, options.tenant_node_label, tenant)
                return f"{place} not tenant {tenant}'s", command
            if (node.get("spec") or {}).get("unschedulable"):
                return f"{place} cordoned", commands.kubectl("uncordon", name)
            if objects.condition(node, "Ready").get("status") not in (None, "True"):
                return f"{place} not ready", commands.kubectl("describe", "node", name)
    return plain(objects.condition(pod, "PodScheduled").get("message") or "the scheduler has not said why"), describe


def _required(pod: JSON) -> dict[str, str]:
    """The labels that a node must have, by the required affinity: those of one value."""
    try:
        terms = view_of(pod.get("spec") or {}).terms
    except ValueError:
        return {}
    return {
        one.key: one.values[0]
        for term in terms
        for one in term.match_expressions or ()
        if one.key and one.operator == "In" and one.values and len(one.values) == 1 and one.values[0] is not None
    }


CHECK = Check("companions", (_companions,))
