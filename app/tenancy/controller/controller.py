"""The tenants' controllers: watches objects, and enqueues the Tenants and nodes that a change may affect.

The caller provides leader election; two instances at once do the same writes and cause no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from app.kube.client import KubeClient
from app.kube.controller import Controller, Result
from app.kube.reflector import Reflector
from app.kube.resources import NAMESPACES, NODES
from app.kube.store import EventType, Key, Store
from app.placement.model import PlacementOptions
from app.tenancy.controller.namespace_objects import NamespaceObject
from app.tenancy.controller.namespaces import NamespaceKeeper
from app.tenancy.controller.nodes import reconcile_node
from app.tenancy.controller.state import Claims, NodeState, TenantState, project_namespace
from app.tenancy.controller.tenants import TenantReconciler
from app.tenancy.model import ADMIN_NAME
from app.workloads.model import TENANT_NAMESPACE_PREFIX, TENANTS
from app.workloads.settings import DEFAULT_QUOTA


@dataclass(frozen=True, slots=True)
class TenantsOptions:
    """`resync` is in seconds.

    `grants` are what Berth's own roles need in tenants' namespaces, `quota` is how many objects there may be in each.
    """

    placement: PlacementOptions = field(default_factory=PlacementOptions)
    admin_names: tuple[str, ...] = (ADMIN_NAME,)
    grants: tuple[NamespaceObject, ...] = ()
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
        claims = Claims(options.placement, options.admin_names)
        self._tenants, self._nodes = claims.tenants, claims.nodes
        self._namespaces: Store[tuple[str, str, bool]] = Store(project_namespace)
        self._reflectors = [
            Reflector(client, TENANTS, self._tenants),
            Reflector(client, NODES, self._nodes),
            Reflector(client, NAMESPACES, self._namespaces),
        ]
        keeper = NamespaceKeeper(client, grants=options.grants, quota=options.quota)

        def controller(name: str, reconcile: Callable[[str], Awaitable[Result]], of: Store[Any]) -> Controller[str]:
            return Controller(
                name,
                reconcile,
                stores=(self._tenants, self._nodes, self._namespaces),
                keys=lambda: [key[1] for key in of.keys()],  # noqa: SIM118 - no mapping, a store
                resync=options.resync,
            )

        self._controllers = (
            controller("tenants", TenantReconciler(client, claims, keeper, now=now).reconcile, self._tenants),
            controller("tenant-nodes", partial(reconcile_node, client, claims), self._nodes),
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
        return [reflector.problem for reflector in self._reflectors if reflector.problem]

    def _tenant_changed(self, _: EventType, key: Key, old: TenantState | None, new: TenantState | None) -> None:
        states = [state for state in (old, new) if state is not None]
        hosts = {host for state in states for host in state.hosts}
        names = {name.lower() for state in states for name in state.names}
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
