"""What checks of several wings ask of placement: the DPUs of an infra cluster.

They are its nodes, by the labels that say in which host each is and whose tenant's.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.kube.resources import NODES
from app.placement.model import Expression
from app.placement.plan import can_hold, view_of
from app.placement.settings import PlacementSettings
from app.text import several
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

    def place_of(self, pod: JSON) -> tuple[str | None, str | None]:
        """The host whose DPU the Pod must run on, and the tenant whose."""
        labels = _required(pod)
        return labels.get(self.host_label), labels.get(self.tenant_label)

    def problem(self, pod: JSON) -> tuple[str, str] | None:
        """What keeps the Pod from the DPU of the host that it has to run on, and the command that fixes it."""
        host, tenant = self.place_of(pod)
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

    def of_tenant(self, tenant: str) -> list[JSON]:
        return [node for node in self.nodes if objects.labels(node).get(self.tenant_label) == tenant]

    def unmatched(self, pod: JSON) -> str:
        """What the Pod's author wants of its node and none of those that placement allows has; "" where there is some.

        Only what one label decides is looked at: the scheduler says the rest.
        """
        labels = _required(pod)
        placed = {label: labels[label] for label in (self.host_label, self.tenant_label) if label in labels}
        nodes = [node for node in self.nodes if placed.items() <= objects.labels(node).items()]
        if not nodes:
            return ""
        where = f"the {several(len(nodes), 'node')}"
        if placed:
            whose = "host's" if self.host_label in placed else "tenant's"
            where = f"the {whose} {several(len(nodes), 'DPU')}"
        for text, key, wanted in _wishes(pod):
            if key in placed or any(_holds(wanted, objects.labels(node).get(key)) for node in nodes):
                continue
            values = sorted({value for node in nodes if (value := objects.labels(node).get(key)) is not None})
            have = f"they have {key}={', '.join(values[:3])}" if values else f"none has label {key}"
            return plain(f"{text} matches none of {where}: {have}")
        return ""


async def dpus_of(cluster: Cluster) -> Dpus:
    """By the settings of the controller, which labels nodes. Raises ApiError where nodes may not be listed."""
    settings = await cluster.settings(PlacementSettings, role="controller", otherwise="webhook")
    return Dpus(await cluster.listed(NODES), settings.host_label, settings.tenant_node_label)


def _wishes(pod: JSON) -> Iterator[tuple[str, str, Expression]]:
    """What a Pod wants of its node, as a text, by the label that decides it; nothing of alternatives."""
    try:
        view = view_of(pod.get("spec") or {})
    except ValueError:
        return
    for key, value in (view.node_selector or {}).items():
        yield f"node selector {key}={value}", key, Expression(key, "In", [value])
    if len(view.terms) == 1:
        for expression in view.terms[0].match_expressions or ():
            if expression.key:
                values = ", ".join(value or "" for value in expression.values or ())
                yield (
                    f"node affinity {expression.key} {expression.operator} {values}".strip(),
                    expression.key,
                    expression,
                )


def _holds(expression: Expression, value: str | None) -> bool:
    return expression.operator in ("NotIn", "DoesNotExist") if value is None else can_hold(expression, value)


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
