"""Check `companions`: those that do not start, those that do not end, and Pods that only look like companions."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.doctor.cluster import Cluster
from app.doctor.deployed_settings import webhook_settings
from app.doctor.model import Finding, Severity
from app.doctor.objects import age, condition, kubectl, labels, listed, plain, several, status, subject
from app.errors import ApiError
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
_WAITS = "its workload is without it: what the companion does for it on the DPU is not done"


@dataclass(frozen=True, slots=True)
class Companions:
    name: str = "companions"

    async def run(self, cluster: Cluster) -> list[Finding]:
        options = (await webhook_settings(cluster, PlacementSettings)).placement
        try:
            nodes: Sequence[JSON] | None = await cluster.listed(NODES)
        except ApiError:
            nodes = None  # without them the scheduler's own words have to do
        findings: list[Finding] = []
        count, beyond = 0, [0] * len(Severity)
        async for pod in cluster.paged(PODS, label_selector=COMPANION):
            count += 1
            found = self._judge(cluster, pod, nodes, options)
            if found is not None and len(findings) < _MOST:
                findings.append(found)
            elif found is not None:
                beyond[found.severity] += 1
        for severity, more in enumerate(beyond):
            if more:
                text = (
                    f"{several(more, 'more companion')} with similar findings: fix the above, then run the doctor again"
                )
                findings.append(Finding(self.name, Severity(severity), "", text, "as above"))
        if count and not findings:
            findings.append(
                Finding(self.name, Severity.ok, "", f"{several(count, 'companion')} run or end as they should")
            )
        return findings

    def _judge(
        self, cluster: Cluster, pod: JSON, nodes: Sequence[JSON] | None, options: PlacementOptions
    ) -> Finding | None:
        metadata, now = pod["metadata"], cluster.now()
        namespace, name, about = metadata["namespace"], metadata["name"], subject(PODS.kind, pod)
        try:
            companion_of(pod)
        except ValueError as error:
            text = f"has label {COMPANION}, but is no companion: {plain(error)}"
            command = kubectl("label", "pod", name, f"{COMPANION}-", namespace=namespace)
            consequence = "the controller does not replace it when it ends, and does not delete it"
            return Finding(self.name, Severity.warning, about, text, consequence, command)
        ending = moment(metadata.get("deletionTimestamp"))
        if ending is not None:
            late = (now - ending).total_seconds()
            if late <= PATIENCE:
                return None
            holding = f"; held by {listed(held)}" if (held := metadata.get("finalizers") or []) else ""
            text = f"should have ended {late / 60:.0f} minutes ago{holding}"
            command = kubectl("delete", "pod", name, "--force", "--grace-period=0", namespace=namespace)
            if held:
                patch = ["--type=merge", "--patch", '{"metadata":{"finalizers":null}}']
                command = kubectl("patch", "pod", name, *patch, namespace=namespace)
            return Finding(
                self.name, Severity.error, about, text, "its successor cannot be made before it is gone", command
            )
        if status(pod).get("phase") != "Pending" or age(pod, now) <= PATIENCE:
            return None
        reason, command = _why(pod, nodes, options)
        text = f"is Pending for {age(pod, now) / 60:.0f} minutes: {reason}"
        return Finding(self.name, Severity.error, about, text, _WAITS, command)


def _why(pod: JSON, nodes: Sequence[JSON] | None, options: PlacementOptions) -> tuple[str, str]:
    """The reason, and the command that fixes it: from the node that the Pod requires, else from the Pod's status."""
    describe = kubectl("describe", "pod", pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
    scheduled = condition(pod, "PodScheduled")
    if (pod.get("spec") or {}).get("nodeName"):
        return next(_waiting(pod), "it has a node, and its containers are not started"), describe
    said = plain(scheduled.get("message") or "the scheduler has not said why")
    if nodes is not None:
        wanted = _required(pod)
        host, tenant = wanted.get(options.host_label), wanted.get(options.tenant_node_label)
        found = [node for node in nodes if host is not None and labels(node).get(options.host_label) == host]
        if host is not None and not found:
            label = shlex.quote(f"{options.host_label}={host}")
            command = f'{kubectl("label", "node")} "$DPU" {label}  # DPU: the node in that host'
            return plain(f"no node is the DPU of host {host}: none has label {options.host_label}={host}"), command
        for node in found:
            name = node["metadata"]["name"]
            if tenant is not None and labels(node).get(options.tenant_node_label) != tenant:
                command = kubectl("label", "node", name, f"{options.tenant_node_label}={tenant}", "--overwrite")
                return f"node {name}, the DPU of host {host}, is not tenant {tenant}'s", command
            if (node.get("spec") or {}).get("unschedulable"):
                return f"node {name}, the DPU of host {host}, is cordoned", kubectl("uncordon", name)
            if condition(node, "Ready").get("status") not in (None, "True"):
                return f"node {name}, the DPU of host {host}, is not ready", kubectl("describe", "node", name)
    return said, describe


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


def _waiting(pod: JSON) -> Iterator[str]:
    said = status(pod)
    for one in [*(said.get("initContainerStatuses") or ()), *(said.get("containerStatuses") or ())]:
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            yield plain(
                f"container {one.get('name')}: {waiting['reason']}: {waiting.get('message') or ''}".rstrip(": ")
            )
