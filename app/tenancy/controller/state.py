"""What the tenants' controllers keep in their stores, and the pure decisions over it.

Owns no I/O: projections of Tenants, Nodes and Namespaces, and who may have which node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from app.kube.store import Store
from app.placement.model import TENANT_LABEL, PlacementOptions
from app.tenancy.model import Tenant
from app.tenancy.tenants.objects import project_tenant
from app.wire import JSON
from app.workloads.model import TENANT_NAMESPACE_PREFIX

FIELD_MANAGER = "berth-tenants"
"""Who owns, by server-side apply, the labels of nodes and the status of Tenants."""


@dataclass(frozen=True, slots=True)
class TenantState:
    """A Tenant object as it stands: `tenant` is None, and `problem` says why, where it cannot be used."""

    name: str
    generation: int
    tenant: Tenant | None
    problem: str = ""

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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a node's label: `tenant` (None: it goes); `keep` leaves it as it is, for the reason given."""

    keep: bool
    tenant: str | None = None
    reason: str = ""


_KEEP = Verdict(keep=True)


def project_state(obj: JSON) -> TenantState:
    """Never refuses an object with a name: that a Tenant is broken has to be told in its status."""
    metadata = obj["metadata"]
    try:
        tenant, problem = project_tenant(obj), ""
    except ValueError as error:
        tenant, problem = None, str(error)
    return TenantState(metadata["name"], int(metadata.get("generation") or 0), tenant, problem)


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


def verdict(node: NodeState, tenants: Store[TenantState]) -> Verdict:
    """Whose the node is to be.

    If two tenants claim the node's host, the label stays. A label that Berth does not manage also stays: its tenant has
    no `spec.hosts`, or does not exist and Berth did not set the label.
    """
    claims = tenants.by_index("host", node.host) if node.host else []
    holder = tenants.get("", node.tenant) if node.tenant else None
    by_hand = holder is not None and (holder.tenant is None or holder.tenant.hosts is None)
    if len(claims) > 1:
        return Verdict(keep=True, reason=f"claimed by {_joined(claim.name for claim in claims)}")
    if claims:
        owner = claims[0].name
        if node.tenant == owner:
            return _KEEP
        if by_hand:
            return Verdict(
                keep=True, reason=f"node {node.name} is labeled for tenant {node.tenant}, which lists no hosts"
            )
        return Verdict(keep=False, tenant=owner)
    if not node.tenant or by_hand or (holder is None and not node.ours):
        return _KEEP
    return Verdict(keep=False)


def host_problems(state: TenantState, tenants: Store[TenantState], nodes: Store[NodeState]) -> list[str]:
    """What stands between the tenant and its hosts, by host."""
    problems = []
    for host in state.hosts:
        others = [claim.name for claim in tenants.by_index("host", host) if claim.name != state.name]
        if others:
            problems.append(f"host {host} is also claimed by {_joined(others)}: its nodes are left as they are")
            continue
        reasons = (verdict(node, tenants).reason for node in nodes.by_index("host", host))
        problems += [f"host {host}: {reason}" for reason in reasons if reason]
    return problems


def identity_problems(state: TenantState, tenants: Store[TenantState], admin_names: Iterable[str]) -> list[str]:
    """Why the gateway cannot tell this tenant from another, or from the cloud admin."""
    admins = {name.lower() for name in admin_names}
    problems = []
    for name in state.names:
        if name.lower() in admins:
            problems.append(f"certificate name {name} is the cloud admin's")
        others = [other.name for other in tenants.by_index("certificate", name.lower()) if other.name != state.name]
        if others:
            problems.append(f"certificate name {name} is also that of {_joined(others)}")
    return problems


def _joined(names: Iterable[str]) -> str:
    return "tenant " + ", ".join(sorted(names))


def _applied_by_us(managed: Iterable[Any], label: str) -> bool:
    for entry in managed:
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply":
            labels = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
            if f"f:{label}" in labels:
                return True
    return False
