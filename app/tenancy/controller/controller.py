"""The tenants' controllers: reconcile the Tenants and nodes that a change may affect, and keep tenants' namespaces.

The caller provides leader election; two instances at once do the same writes and cause no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.kit import Kit, Wakes
from app.kube.resources import NAMESPACES, NODES
from app.kube.retry import get_or_none, if_there
from app.kube.store import Key, Store
from app.placement.model import PlacementOptions
from app.placement.settings import PlacementSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.tenancy.controller.state import (
    Claims,
    NodeState,
    TenantState,
    project_namespace,
    project_node,
    project_state,
    unexpired,
)
from app.tenancy.controller.status import Finding, LinkReconciler, write_status
from app.tenancy.namespace import (
    FIELD_MANAGER,
    OWN_ROLE,
    Foreign,
    NamespaceObject,
    NotReady,
    bounds_of,
    ensure_bounds,
    ensure_grants,
    ensure_namespace,
)
from app.tenancy.settings import TenantsOptions, TenantsSettings
from app.text import enumerated, utc_now
from app.workloads.model import TENANT_NAMESPACE_PREFIX, TENANTS, tenant_namespace

FOREIGN_RETRY = 30.0
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
    caches = TenantCaches(kit, options.placement, options.admin_names)
    keeper = NamespaceKeeper(kit.client, grants=options.grants, quota=options.quota)
    kit.reconcile(
        "tenants",
        TenantReconciler(kit.client, caches.claims, keeper, now=now).reconcile,
        keys=lambda: [state.name for state in caches.tenants.values()],
        wakes=caches.tenants_woken(),
        turn=None,
        workers=_WORKERS,
    )
    links = LinkReconciler(kit.client, caches.claims, kit.events, now=now)
    kit.reconcile(
        "tenant-links",
        links.reconcile,
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
    kit.at_end(links.forget_all)


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


class NamespaceKeeper:
    def __init__(self, client: KubeClient, *, grants: Sequence[NamespaceObject], quota: Mapping[str, int]) -> None:
        self._client, self._bounds = client, bounds_of(quota)
        self._own_grants = [grant for grant in grants if grant.name == OWN_ROLE]
        self._grants = [grant for grant in grants if grant.name != OWN_ROLE]

    async def keep(self, state: TenantState) -> tuple[Finding, float | None]:
        """The condition NamespaceReady, and in how many seconds to look again.

        A suspended or broken tenant's namespace is left as it is: it may be on its way out.
        """
        kind = "NamespaceReady"
        if state.tenant is None or state.tenant.suspended:
            return Finding(kind, note="left as it is"), None
        try:
            await self._ensure(state.name)
        except Foreign as error:
            return Finding(kind, error.reason, str(error)), FOREIGN_RETRY
        except NotReady as error:
            return Finding(kind, error.reason, str(error)), error.delay
        except ApiError as error:
            if error.status in (403, 422):  # a policy of the cluster: report it, and try again later
                return Finding(kind, "NamespaceRefused", str(error)), FOREIGN_RETRY
            raise
        return Finding(kind), None

    async def _ensure(self, tenant: str) -> None:
        """In this order: what others may do there comes when the bounds hold."""
        namespace = tenant_namespace(tenant)
        await ensure_namespace(self._client, tenant)
        given, foreign = False, None
        try:
            given = await ensure_grants(self._client, namespace, self._own_grants)
        except Foreign as error:
            foreign = error
        try:
            await ensure_bounds(self._client, namespace, self._bounds)
        except ApiError as error:
            if error.status != 403:
                raise
            if given:  # the API server has not seen our RoleBinding yet
                raise Transient(str(error)) from error
            raise foreign or error from error
        await ensure_grants(self._client, namespace, self._grants)
        if foreign is not None:
            raise foreign


class TenantCaches:
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
