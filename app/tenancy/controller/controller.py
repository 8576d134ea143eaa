"""The tenants' controllers: reconcile the Tenants and nodes that a change may affect.

The caller provides leader election; two instances at once do the same writes and cause no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial

from app.kube.client import KubeClient
from app.kube.controller import Controller
from app.kube.events import EventRecorder
from app.kube.running import start
from app.tenancy.controller import metrics
from app.tenancy.controller.caches import Caches
from app.tenancy.controller.links import LinkReconciler
from app.tenancy.controller.namespaces import NamespaceKeeper
from app.tenancy.controller.nodes import reconcile_node
from app.tenancy.controller.tenants import TenantReconciler
from app.tenancy.settings import TenantsOptions
from app.text import utc_now


class TenantsController:
    """Keeps namespaces, node labels, pinned certificates and status true to the Tenant objects."""

    def __init__(
        self,
        client: KubeClient,
        *,
        events: EventRecorder | None = None,
        options: TenantsOptions | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        options = options or TenantsOptions()
        self._caches = caches = Caches(client, options.placement, options.admin_names)
        claims = caches.claims
        keeper = NamespaceKeeper(client, grants=options.grants, quota=options.quota)
        tenants = Controller(
            "tenants",
            TenantReconciler(client, claims, keeper, now=now).reconcile,
            stores=caches.stores,
            keys=lambda: [state.name for state in claims.tenants.values()],
            resync=options.resync,
            turn=None,
        )
        nodes = Controller(
            "tenant-nodes",
            partial(reconcile_node, client, claims),
            stores=caches.stores,
            keys=lambda: [node.name for node in claims.nodes.values()],
            resync=options.resync,
            turn=None,
        )
        links = Controller(
            "tenant-links",
            LinkReconciler(client, claims, events, now=now).reconcile,
            stores=(claims.tenants,),
            keys=lambda: [state.name for state in claims.tenants.values()],
            resync=options.resync,
            turn=None,
        )
        self._controllers = (tenants, links, nodes)
        caches.wake(tenant=tenants.enqueue, link=links.enqueue, node=nodes.enqueue)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                start(group, self._caches.reflectors, self._controllers)
        finally:
            metrics.forget_all()

    def waiting(self) -> list[str]:
        return self._caches.waiting()
