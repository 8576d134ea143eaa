"""What the tenants' controllers keep in their caches, and the decisions over it: who may have which node. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from app.kube.conditions import condition, status_of
from app.kube.store import Store
from app.placement.model import TENANT_LABEL, PlacementOptions
from app.tenancy.model import CONNECTED, Link, Tenant, holder_of, link_of, project_tenant
from app.tenancy.namespace import FIELD_MANAGER
from app.wire import JSON
from app.workloads.model import TENANT_NAMESPACE_PREFIX

LONGEST_WAIT = 3600.0
"""Seconds after which an end that lies ahead is looked at again: clocks are set, machines sleep."""


@dataclass(frozen=True, slots=True)
class TenantState:
    """A Tenant object as it stands: `tenant` is None, and `problem` says why, where it cannot be used.

    `link` is what is noted of its agent, `connected` the condition that follows from it.
    """

    name: str
    generation: int
    tenant: Tenant | None
    problem: str = ""
    uid: str = ""
    ending: bool = False
    link: Link = field(default_factory=Link)
    connected: JSON = field(default_factory=dict)

    @property
    def without_link(self) -> TenantState:
        """The same without what is noted of its agent."""
        return replace(self, link=Link(), connected={})

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.tenant.hosts or () if self.tenant else ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.tenant.names if self.tenant else ()


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node with a host or a tenant; `tenant` is the label's value, `ours` whether it was we who set it."""

    name: str
    host: str
    tenant: str
    ours: bool


def project_state(obj: JSON) -> TenantState:
    """Never refuses an object with a name: the status of a broken Tenant reports the problem."""
    metadata = obj["metadata"]
    try:
        tenant, problem = project_tenant(obj), ""
    except ValueError as error:
        tenant, problem = None, str(error)
    return TenantState(
        metadata["name"],
        int(metadata.get("generation") or 0),
        tenant,
        problem,
        uid=str(metadata.get("uid") or ""),
        ending=bool(metadata.get("deletionTimestamp")),
        link=link_of(obj),
        connected=condition(status_of(obj), CONNECTED),
    )


def project_node(obj: JSON, options: PlacementOptions) -> NodeState | None:
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    host, tenant = labels.get(options.host_label) or "", labels.get(options.tenant_node_label) or ""
    if not host and not tenant:
        return None
    ours = bool(tenant) and _applied_by_us(metadata.get("managedFields") or (), options.tenant_node_label)
    return NodeState(metadata["name"], host, tenant, ours)


def project_namespace(obj: JSON) -> tuple[str, str, bool] | None:
    """(name, tenant by our label, ending) of a namespace that has or could have a tenant."""
    metadata = obj["metadata"]
    if not metadata["name"].startswith(TENANT_NAMESPACE_PREFIX):
        return None
    label = (metadata.get("labels") or {}).get(TENANT_LABEL) or ""
    return metadata["name"], label, bool(metadata.get("deletionTimestamp"))


class Claims:
    """What follows from all Tenants and nodes together. `admin_names` are those of the cloud admin's certificates."""

    def __init__(
        self,
        tenants: Store[TenantState],
        nodes: Store[NodeState],
        options: PlacementOptions,
        admin_names: Iterable[str],
    ) -> None:
        self.tenants, self.nodes, self.options = tenants, nodes, options
        self._admin_names = {name.lower() for name in admin_names}

    def verdict(self, node: NodeState) -> tuple[str, str]:
        """The tenant whose label the node is to have ("" for none), and why it does not get the one of its claim.

        If two tenants claim the node's host, the label stays. A label that Berth does not manage also stays: its tenant
        has no `spec.hosts`, or does not exist and Berth did not set the label.
        """
        claims = self.tenants.by_index("host", node.host) if node.host else []
        holder = self.tenants.get("", node.tenant) if node.tenant else None
        by_hand = holder is not None and (holder.tenant is None or holder.tenant.hosts is None)
        if len(claims) > 1:
            return node.tenant, f"claimed by {_joined(claim.name for claim in claims)}"
        if claims and by_hand and node.tenant != claims[0].name:
            return node.tenant, f"node {node.name} is labeled for tenant {node.tenant}, which lists no hosts"
        if claims:
            return claims[0].name, ""
        return node.tenant if by_hand or (holder is None and not node.ours) else "", ""

    def holder_of(self, cluster: str) -> str:
        """The tenant that has this cluster; "" where it is noted on none."""
        return holder_of(cluster, ((state.name, state.link) for state in self.tenants.by_index("cluster", cluster)))

    def concerned(self, cluster: str) -> list[str]:
        """The tenants on which this cluster is noted, or whose last refusal is about it."""
        return [state.name for by in ("cluster", "refused cluster") for state in self.tenants.by_index(by, cluster)]

    def host_problems(self, state: TenantState) -> list[str]:
        """What stands between the tenant and its hosts, by host."""
        problems = []
        for host in state.hosts:
            others = [claim.name for claim in self.tenants.by_index("host", host) if claim.name != state.name]
            if others:
                problems.append(f"host {host} is also claimed by {_joined(others)}: its nodes are left as they are")
                continue
            reasons = (self.verdict(node)[1] for node in self.nodes.by_index("host", host))
            problems += [f"host {host}: {reason}" for reason in reasons if reason]
        return problems

    def identity_problems(self, state: TenantState) -> list[str]:
        """Why the gateway cannot distinguish this tenant from another, or from the cloud admin."""
        problems = []
        for name in state.names:
            if name.lower() in self._admin_names:
                problems.append(f"certificate name {name} is the cloud admin's")
            claims = self.tenants.by_index("certificate", name.lower())
            if others := [claim.name for claim in claims if claim.name != state.name]:
                problems.append(f"certificate name {name} is also that of {_joined(others)}")
        return problems


def unexpired(obj: JSON, state: TenantState, *, now: datetime) -> tuple[list[JSON] | None, float | None]:
    """The pinned certificates without those past their end, None where all stay, and the seconds to the next end.

    One always stays: with none, the name alone would be enough.
    """
    ends = [pin.until for pin in state.tenant.certificates] if state.tenant else []
    ahead = [(end - now).total_seconds() for end in ends if end is not None and end > now]
    wait = min(*ahead, LONGEST_WAIT) if ahead else None
    pins = obj["spec"]["identity"]["certificates"] if ends else []
    kept = [pin for pin, end in zip(pins, ends, strict=True) if end is None or end > now]
    if pins and not kept:
        kept = [pins[ends.index(max(end for end in ends if end is not None))]]
    return kept if len(kept) < len(pins) else None, wait


def _joined(names: Iterable[str]) -> str:
    return "tenant " + ", ".join(sorted(names))


def _applied_by_us(managed: Iterable[Any], label: str) -> bool:
    for entry in managed:
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply":
            labels = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
            if f"f:{label}" in labels:
                return True
    return False
