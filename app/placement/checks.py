"""What checks of several wings ask of placement: the DPUs of an infra cluster.

They are its nodes, by the labels that say in which host each is and whose tenant's.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.kube.resources import NODES
from app.placement.plan import view_of
from app.placement.settings import PlacementSettings
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Dpus:
    """`host_label` and `tenant_label` are the labels by which nodes say it."""

    nodes: Sequence[JSON]
    host_label: str
    tenant_label: str

    def label(self, host: str) -> str:
        """The command that makes a node the DPU of this host."""
        return f'kubectl label node "$DPU" {shlex.quote(f"{self.host_label}={host}")}  # DPU: the node in that host'

    def problem(self, pod: JSON) -> tuple[str, str] | None:
        """What keeps the Pod from the DPU of the host that it has to run on, and the command that fixes it."""
        labels = _required(pod)
        host, tenant = labels.get(self.host_label), labels.get(self.tenant_label)
        if host is None:
            return None
        nodes = [node for node in self.nodes if objects.labels(node).get(self.host_label) == host]
        if not nodes:
            text = f"no node is the DPU of host {host}: none has label {self.host_label}={host}"
            return plain(text), self.label(host)
        for node in nodes:
            name = node["metadata"]["name"]
            place = f"node {name}, the DPU of host {host}, is"
            if tenant is not None and objects.labels(node).get(self.tenant_label) != tenant:
                return f"{place} not tenant {tenant}'s", commands.set_label("node", name, self.tenant_label, tenant)
            if (node.get("spec") or {}).get("unschedulable"):
                return f"{place} cordoned", commands.kubectl("uncordon", name)
            if objects.condition(node, "Ready").get("status") not in (None, "True"):
                return f"{place} not ready", commands.kubectl("describe", "node", name)
        return None


async def dpus_of(cluster: Cluster) -> Dpus:
    """By the settings of the controller, which labels nodes. Raises ApiError where nodes may not be listed."""
    settings = await cluster.settings(PlacementSettings, role="controller", otherwise="webhook")
    return Dpus(await cluster.listed(NODES), settings.host_label, settings.tenant_node_label)


def _required(pod: JSON) -> dict[str, str]:
    """The labels that a node must have, by the required affinity: those of one value."""
    try:
        terms = view_of(pod.get("spec") or {}).terms
    except ValueError:
        return {}
    return {
        expression.key: expression.values[0]
        for term in terms
        for expression in term.match_expressions or ()
        if expression.key
        and expression.operator == "In"
        and expression.values
        and len(expression.values) == 1
        and expression.values[0] is not None
    }
