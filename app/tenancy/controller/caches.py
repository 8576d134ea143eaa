"""The caches of the tenants' controllers, and which Tenants and nodes a change in them may affect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from app.kube.kit import Kit, Wakes
from app.kube.resources import NAMESPACES, NODES
from app.kube.store import Key, Store
from app.placement.model import PlacementOptions
from app.tenancy.controller.state import (
    Claims,
    NodeState,
    TenantState,
    project_namespace,
    project_node,
    project_state,
)
from app.workloads.model import TENANT_NAMESPACE_PREFIX, TENANTS


class Caches:
    """`claims` is what follows from them all together. `admin_names` are those of the cloud admin's certificates."""

    def __init__(self, kit: Kit, placement: PlacementOptions, admin_names: Iterable[str]) -> None:
        self.tenants = kit.cache(
            TENANTS,
            project_state,
            indices={
                "host": lambda state: state.hosts,
                "certificate": lambda state: [name.lower() for name in state.names],
                "cluster": lambda state: [state.link.cluster],
                "refused cluster": lambda state: [state.link.refused.cluster] if state.link.refused else [],
            },
        )
        self.nodes = kit.cache(
            NODES,
            partial(project_node, options=placement),
            indices={"host": lambda node: [node.host], "tenant": lambda node: [node.tenant]},
        )
        self._namespaces = kit.cache(NAMESPACES, project_namespace)
        self.claims = Claims(self.tenants, self.nodes, placement, admin_names)

    def tenants_woken(self) -> Mapping[Store[Any], Wakes]:
        """The names of the Tenants that a change may affect."""
        return {
            self.tenants: self._rivals_of,
            self.nodes: lambda _key, old, new: self._claiming(old, new),
            self._namespaces: lambda key, _old, _new: self._in_namespace(key[1]),
        }

    def links_woken(self) -> Mapping[Store[Any], Wakes]:
        """The names of the Tenants whose condition Connected a change may affect."""
        return {self.tenants: self._linked_to}

    def nodes_woken(self) -> Mapping[Store[Any], Wakes]:
        """The names of the nodes that a change may affect."""
        return {self.tenants: self._nodes_of, self.nodes: lambda key, _old, _new: (key[1],)}

    def _rivals_of(self, key: Key, old: TenantState | None, new: TenantState | None) -> list[str]:
        """The Tenant itself, and those that claim one of its hosts or names."""
        if _is_of_link(old, new):
            return []
        tenants = self.tenants
        states = [state for state in (old, new) if state is not None]
        hosts = {host for state in states for host in state.hosts}
        names = {name.lower() for state in states for name in state.names}
        rivals = [state.name for host in hosts for state in tenants.by_index("host", host)]
        rivals += [state.name for name in names for state in tenants.by_index("certificate", name)]
        return [key[1], *rivals]

    def _claiming(self, *nodes: NodeState | None) -> list[str]:
        """The Tenants that claim the host of one of the nodes."""
        hosts = [node.host for node in nodes if node is not None]
        return [state.name for host in hosts for state in self.tenants.by_index("host", host)]

    def _in_namespace(self, namespace: str) -> list[str]:
        tenant = namespace.removeprefix(TENANT_NAMESPACE_PREFIX)
        return [tenant] if ("", tenant) in self.tenants else []

    def _linked_to(self, key: Key, old: TenantState | None, new: TenantState | None) -> list[str]:
        """The Tenant itself. A refusal speaks of a cluster that may be of another tenant soon."""
        clusters = {state.link.cluster for state in (old, new) if state is not None and state.link.cluster}
        others = [name for cluster in clusters for name in self.claims.concerned(cluster)] if _moved(old, new) else []
        return [key[1], *others]

    def _nodes_of(self, key: Key, old: TenantState | None, new: TenantState | None) -> list[str]:
        """Those that have the label of the Tenant, and those of its hosts."""
        if _is_of_link(old, new):
            return []
        hosts = {host for state in (old, new) if state is not None for host in state.hosts}
        nodes = [*self.nodes.by_index("tenant", key[1])]
        nodes += [node for host in hosts for node in self.nodes.by_index("host", host)]
        return [node.name for node in nodes]


def _is_of_link(old: TenantState | None, new: TenantState | None) -> bool:
    """Whether nothing else has changed than what is noted of the tenant's agent."""
    return old is not None and new is not None and old.without_link == new.without_link


def _moved(old: TenantState | None, new: TenantState | None) -> bool:
    """Whether a cluster may have another tenant now."""
    before, after = (None if state is None else (state.link.cluster, state.link.moved) for state in (old, new))
    return before != after
