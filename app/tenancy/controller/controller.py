"""The tenants' controllers: reconcile the Tenants and nodes that a change may affect.

The caller provides leader election; two instances at once do the same writes and cause no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from app.kube.kit import Kit
from app.placement.settings import PlacementSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.tenancy.controller import metrics
from app.tenancy.controller.caches import Caches
from app.tenancy.controller.links import LinkReconciler
from app.tenancy.controller.namespaces import NamespaceKeeper
from app.tenancy.controller.nodes import reconcile_node
from app.tenancy.controller.tenants import TenantReconciler
from app.tenancy.settings import TenantsOptions, TenantsSettings
from app.text import utc_now

_WORKERS = 2


def build(context: ControllerContext) -> Kit:
    settings, kit = settings_as(context.settings, TenantsSettings), context.kit()
    options = TenantsOptions(
        placement=settings_as(context.settings, PlacementSettings).placement,
        admin_names=settings.admin_names,
        grants=settings.grants,
        quota=settings.quota,
    )
    keep_tenants(kit, options=options)
    return kit


def keep_tenants(kit: Kit, *, options: TenantsOptions | None = None, now: Callable[[], datetime] = utc_now) -> None:
    """Keep namespaces, node labels, pinned certificates and status true to the Tenant objects."""
    options = options or TenantsOptions()
    caches = Caches(kit, options.placement, options.admin_names)
    keeper = NamespaceKeeper(kit.client, grants=options.grants, quota=options.quota)
    kit.reconcile(
        "tenants",
        TenantReconciler(kit.client, caches.claims, keeper, now=now).reconcile,
        keys=lambda: [state.name for state in caches.tenants.values()],
        wakes=caches.tenants_woken(),
        turn=None,
        workers=_WORKERS,
    )
    kit.reconcile(
        "tenant-links",
        LinkReconciler(kit.client, caches.claims, kit.events, now=now).reconcile,
        keys=lambda: [state.name for state in caches.tenants.values()],
        wakes=caches.links_woken(),
        turn=None,
        stores=(caches.tenants,),
        workers=_WORKERS,
    )
    kit.reconcile(
        "tenant-nodes",
        partial(reconcile_node, kit.client, caches.claims),
        keys=lambda: [node.name for node in caches.nodes.values()],
        wakes=caches.nodes_woken(),
        turn=None,
        workers=_WORKERS,
    )
    kit.at_end(metrics.forget_all)
