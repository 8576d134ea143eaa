"""Reconciles one Tenant: its namespace and the rights there, its list of pinned certificates, its status.

Reads what other Tenants claim from the caches, and the object itself from the API server. Writes only what it owns: the
status by server-side apply, the list of certificates under the resourceVersion that it has read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.retry import get_or_none
from app.tenancy.controller.namespaces import NamespaceKeeper
from app.tenancy.controller.state import Claims, TenantState, project_state, unexpired
from app.tenancy.controller.status import Finding, write_status
from app.text import enumerated
from app.workloads.model import TENANTS

_NAMED = 900
"""Characters of the hosts that a condition names: a Tenant may have any number of them."""


class TenantReconciler:
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
