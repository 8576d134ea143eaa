"""The tenants' controllers: reconcile the Tenants and nodes that a change may affect.

The caller provides leader election; two instances at once do the same writes and cause no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.kit import Kit
from app.kube.resources import NODES
from app.kube.retry import get_or_none, if_there
from app.placement.settings import PlacementSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.tenancy.controller import metrics
from app.tenancy.controller.caches import Caches
from app.tenancy.controller.links import LinkReconciler
from app.tenancy.controller.namespaces import NamespaceKeeper
from app.tenancy.controller.state import Claims, TenantState, project_node, project_state, unexpired
from app.tenancy.controller.status import Finding, write_status
from app.tenancy.settings import TenantsOptions, TenantsSettings
from app.tenancy.tenants.namespace import FIELD_MANAGER
from app.text import enumerated, utc_now
from app.workloads.model import TENANTS

_WORKERS = 2
_NAMED = 900
"""Characters of the hosts that a condition names: a Tenant may have any number of them."""


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


async def reconcile_node(client: KubeClient, claims: Claims, name: str) -> Result:
    """Keep the tenant's label on a node (a DPU) of its hosts, and touch no other field.

    Decides from the cache, and again from what the API server says before it writes: the label comes by server-side
    apply, and goes under the version that was read. With an empty `tenant_node_label` (no confinement) nothing is done.
    """
    label, cached = claims.options.tenant_node_label, claims.nodes.get("", name)
    if not label or cached is None or claims.verdict(cached)[0] == cached.tenant:
        return Done()
    obj = await get_or_none(client, NODES, name)
    node = project_node(obj, claims.options) if obj is not None else None
    if obj is None or node is None or (tenant := claims.verdict(node)[0]) == node.tenant:
        return Done()
    metadata = obj["metadata"]
    if tenant:
        body = NODES.body({"name": name, "uid": metadata["uid"], "labels": {label: tenant}})
        await if_there(client.apply(NODES, name, body, field_manager=FIELD_MANAGER))
    else:
        patch, version = {"metadata": {"labels": {label: None}}}, metadata["resourceVersion"]
        await if_there(client.patch(NODES, name, patch, patch_type="merge", version=version))
    return Done()


class TenantReconciler:
    """Keeps the namespace and the rights there, the list of pinned certificates, and the status of a Tenant.

    What other Tenants claim comes from the caches, the object itself from the API server. The status is written by
    server-side apply, the list under the resourceVersion that was read.
    """

    def __init__(
        self, client: KubeClient, claims: Claims, namespaces: NamespaceKeeper, *, now: Callable[[], datetime]
    ) -> None:
        self._client, self._claims, self._namespaces, self._now = client, claims, namespaces, now

    async def reconcile(self, name: str) -> Result:
        """One Tenant by its name; Transient where the API server or the namespace is not ready."""
        obj = await get_or_none(self._client, TENANTS, name)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return Done()
        state = project_state(obj)
        kept, wait = unexpired(obj, state, now=self._now())
        if kept is not None:
            patch, version = {"spec": {"identity": {"certificates": kept}}}, obj["metadata"]["resourceVersion"]
            obj = await self._client.patch(TENANTS, name, patch, patch_type="merge", version=version)
        namespace, again = await self._namespaces.keep(state)
        findings = [self._identity(state), namespace, self._hosts(state)]
        suspended = state.tenant is not None and state.tenant.suspended
        await write_status(self._client, obj, findings, suspended=suspended, now=self._now())
        waits = [seconds for seconds in (wait, again) if seconds is not None]
        return RequeueAfter(min(waits)) if waits else Done()

    def _identity(self, state: TenantState) -> Finding:
        kind = "IdentityReady"
        if state.tenant is None:
            return Finding(kind, "Invalid", state.problem)
        shared = self._claims.identity_problems(state)
        if shared:
            return Finding(kind, "IdentityShared", enumerated(shared))
        pins, now = state.tenant.certificates, self._now()
        if pins and all(pin.until is not None and pin.until <= now for pin in pins):
            text = f"every certificate of the tenant has expired: berth tenant rotate {state.name}"
            return Finding(kind, "CertificatesExpired", text)
        return Finding(kind)

    def _hosts(self, state: TenantState) -> Finding:
        kind = "HostsReady"
        if state.tenant is None or state.tenant.hosts is None:
            return Finding(kind, note="Berth does not set the labels of this tenant's nodes")
        problems = self._claims.host_problems(state)
        if problems:
            return Finding(kind, "HostTaken", enumerated(problems))
        missing = [host for host in state.hosts if not self._claims.nodes.by_index("host", host)]
        return Finding(kind, note=f"no node yet for {enumerated(missing, _NAMED)}" if missing else "")
