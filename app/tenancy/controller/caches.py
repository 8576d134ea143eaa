"""The caches of the tenants' controllers, and which Tenants and nodes a change in them may affect."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app.kube.client import KubeClient
from app.kube.reflector import Reflector
from app.kube.resources import NAMESPACES, NODES
from app.kube.running import problems_of
from app.kube.store import EventType, Key, Store
from app.placement.model import PlacementOptions
from app.tenancy.controller.state import Claims, NodeState, TenantState, project_namespace
from app.workloads.model import TENANT_NAMESPACE_PREFIX, TENANTS


class Caches:
    """`reflectors` fill them for as long as they run."""

    def __init__(self, client: KubeClient, placement: PlacementOptions, admin_names: Iterable[str]) -> None:
        self.claims = Claims(placement, admin_names)
        namespaces: Store[tuple[str, str, bool]] = Store(project_namespace)
        self.stores = (self.claims.tenants, self.claims.nodes, namespaces)
        self.reflectors = [
            Reflector(client, TENANTS, self.claims.tenants),
            Reflector(client, NODES, self.claims.nodes),
            Reflector(client, NAMESPACES, namespaces),
        ]
        self._on_tenant: Callable[[str], None] = lambda _name: None
        self._on_link: Callable[[str], None] = lambda _name: None
        self._on_node: Callable[[str], None] = lambda _name: None
        self.claims.tenants.subscribe(self._tenant_changed)
        self.claims.nodes.subscribe(self._node_changed)
        namespaces.subscribe(self._namespace_changed)

    def wake(self, *, tenant: Callable[[str], None], link: Callable[[str], None], node: Callable[[str], None]) -> None:
        """From now on call these alone, with the name of each Tenant, and of each node, that a change may affect.

        `link` is called for a change that affects the condition Connected, alone where it affects nothing else.
        """
        self._on_tenant, self._on_link, self._on_node = tenant, link, node

    def waiting(self) -> list[str]:
        return problems_of(self.reflectors)

    def _tenant_changed(self, _: EventType, key: Key, old: TenantState | None, new: TenantState | None) -> None:
        states = [state for state in (old, new) if state is not None]
        clusters = {state.link.cluster for state in states if state.link.cluster}
        # A refusal speaks of a cluster that may be of another tenant soon.
        others = (name for cluster in clusters for name in self.claims.concerned(cluster)) if _moved(old, new) else ()
        for name in (key[1], *others):
            self._on_link(name)
        if old is not None and new is not None and old.without_link == new.without_link:
            return
        hosts = {host for state in states for host in state.hosts}
        names = {name.lower() for state in states for name in state.names}
        labeled = self.claims.nodes.by_index("tenant", key[1])
        nodes = [*labeled, *(node for host in hosts for node in self.claims.nodes.by_index("host", host))]
        rivals = [state.name for host in hosts for state in self.claims.tenants.by_index("host", host)]
        rivals += [state.name for name in names for state in self.claims.tenants.by_index("certificate", name)]
        self._affect(tenants=[key[1], *rivals], nodes=[node.name for node in nodes])

    def _node_changed(self, _: EventType, key: Key, old: NodeState | None, new: NodeState | None) -> None:
        self._affect(nodes=[key[1]])
        for node in (old, new):
            if node is not None:
                self._affect(tenants=[state.name for state in self.claims.tenants.by_index("host", node.host)])

    def _namespace_changed(self, _: EventType, key: Key, __: object, ___: object) -> None:
        tenant = key[1].removeprefix(TENANT_NAMESPACE_PREFIX)
        if ("", tenant) in self.claims.tenants:
            self._affect(tenants=[tenant])

    def _affect(self, *, tenants: Iterable[str] = (), nodes: Iterable[str] = ()) -> None:
        for name in tenants:
            self._on_tenant(name)
        for name in nodes:
            self._on_node(name)


def _moved(old: TenantState | None, new: TenantState | None) -> bool:
    """Whether a cluster may have another tenant now."""
    before, after = (None if state is None else (state.link.cluster, state.link.moved) for state in (old, new))
    return before != after
