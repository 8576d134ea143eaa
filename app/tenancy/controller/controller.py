"""The tenants' controllers: watches objects, and enqueues the Tenants and nodes that a change may affect.

Contains only the wiring: `tenants` reconciles a Tenant, `nodes` a node. The caller provides leader election; two
instances at once do the same writes and cause no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from app.kube.client import KubeClient
from app.kube.controller import Controller
from app.kube.reflector import Reflector
from app.kube.resources import NAMESPACES, NODES
from app.kube.store import EventType, Key, Store
from app.placement.model import PlacementOptions
from app.tenancy.controller.bounds import bounds_of
from app.tenancy.controller.grants import NamespaceGrant
from app.tenancy.controller.nodes import NodeReconciler
from app.tenancy.controller.state import NodeState, TenantState, project_namespace, project_node, project_state
from app.tenancy.controller.tenants import TenantReconciler
from app.tenancy.model import ADMIN_NAME
from app.tenancy.tenants.namespace import POD_SECURITY_LEVEL
from app.workloads.model import TENANT_NAMESPACE_PREFIX, TENANTS
from app.workloads.quota import DEFAULT_QUOTA


@dataclass(frozen=True, slots=True)
class TenantsOptions:
    """`pod_security` is the level for new namespaces ("": none); `resync` is in seconds.

    `grants` are what Berth's own roles need in tenants' namespaces, `quota` is how many objects there may be in each.
    """

    placement: PlacementOptions = field(default_factory=PlacementOptions)
    pod_security: str = POD_SECURITY_LEVEL
    admin_names: tuple[str, ...] = (ADMIN_NAME,)
    grants: tuple[NamespaceGrant, ...] = ()
    quota: Mapping[str, int] = field(default_factory=lambda: DEFAULT_QUOTA)
    resync: float = 600.0


class TenantsController:
    """Keeps namespaces, node labels, pinned certificates and status true to the Tenant objects."""

    def __init__(
        self,
        client: KubeClient,
        *,
        options: TenantsOptions | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        options = options or TenantsOptions()
        self._tenants: Store[TenantState] = Store(
            project_state,
            indices={
                "host": lambda state: state.hosts,
                "certificate": lambda state: [name.lower() for name in state.names],
            },
        )
        self._nodes: Store[NodeState] = Store(
            lambda obj: project_node(obj, options.placement),
            indices={"host": lambda node: [node.host], "tenant": lambda node: [node.tenant]},
        )
        self._namespaces: Store[tuple[str, str, bool]] = Store(project_namespace)
        self._reflectors = [
            Reflector(client, TENANTS, self._tenants),
            Reflector(client, NODES, self._nodes),
            Reflector(client, NAMESPACES, self._namespaces),
        ]
        stores = (self._tenants, self._nodes, self._namespaces)
        tenants = TenantReconciler(
            client,
            self._tenants,
            self._nodes,
            admin_names=options.admin_names,
            pod_security=options.pod_security,
            grants=options.grants,
            bounds=bounds_of(options.quota),
            now=now,
        )
        self._controllers = (
            Controller(
                "tenants",
                tenants.reconcile,
                stores=stores,
                keys=lambda: [name for _, name in self._tenants.keys()],  # noqa: SIM118 - no mapping, a store
                resync=options.resync,
            ),
            Controller(
                "tenant-nodes",
                NodeReconciler(client, self._tenants, self._nodes, options.placement).reconcile,
                stores=stores,
                keys=lambda: [name for _, name in self._nodes.keys()],  # noqa: SIM118 - no mapping, a store
                resync=options.resync,
            ),
        )
        self._tenants.subscribe(self._tenant_changed)
        self._nodes.subscribe(self._node_changed)
        self._namespaces.subscribe(self._namespace_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name=f"watch-{reflector.resource.plural}")
            for controller in self._controllers:
                group.create_task(controller.run(), name=controller.name)

    def waiting(self) -> list[str]:
        """What stands in the way of being up to date, for readiness; [] where nothing does."""
        return [reflector.problem for reflector in self._reflectors if reflector.problem]

    def _tenant_changed(self, _: EventType, key: Key, old: TenantState | None, new: TenantState | None) -> None:
        hosts, names = set[str](), set[str]()
        for state in (old, new):
            if state is not None:
                hosts.update(state.hosts)
                names.update(name.lower() for name in state.names)
        labeled = self._nodes.by_index("tenant", key[1])
        nodes = [*labeled, *(node for host in hosts for node in self._nodes.by_index("host", host))]
        rivals = [state.name for host in hosts for state in self._tenants.by_index("host", host)]
        rivals += [state.name for name in names for state in self._tenants.by_index("certificate", name)]
        self._wake(tenants=[key[1], *rivals], nodes=[node.name for node in nodes])

    def _node_changed(self, _: EventType, key: Key, old: NodeState | None, new: NodeState | None) -> None:
        self._wake(nodes=[key[1]])
        for node in (old, new):
            if node is not None:
                self._wake(tenants=[state.name for state in self._tenants.by_index("host", node.host)])

    def _namespace_changed(self, _: EventType, key: Key, __: object, ___: object) -> None:
        tenant = key[1].removeprefix(TENANT_NAMESPACE_PREFIX)
        if ("", tenant) in self._tenants:
            self._wake(tenants=[tenant])

    def _wake(self, *, tenants: Iterable[str] = (), nodes: Iterable[str] = ()) -> None:
        for name in tenants:
            self._controllers[0].enqueue(name)
        for name in nodes:
            self._controllers[1].enqueue(name)
