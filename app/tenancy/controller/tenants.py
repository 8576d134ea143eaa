"""Reconciles one Tenant: its namespace and the rights there, its list of pinned certificates, its status.

Reads what other Tenants claim from the stores, and the object itself from the API server. Writes only what it owns: the
status by server-side apply, the list of certificates under the resourceVersion that it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.store import Store
from app.tenancy.controller.bounds import Bound, BoundsPending, ForeignBound, ensure_bounds
from app.tenancy.controller.grants import OWN_ROLE, ForeignGrant, NamespaceGrant, ensure_grants
from app.tenancy.controller.state import (
    FIELD_MANAGER,
    NodeState,
    TenantState,
    host_problems,
    identity_problems,
    project_state,
)
from app.tenancy.controller.status import Finding, tenant_status
from app.tenancy.tenants.namespace import ForeignNamespace, NamespaceEnding, ensure_namespace
from app.tenancy.tenants.objects import parse_until
from app.wire import JSON
from app.workloads.model import TENANTS, tenant_namespace

LONGEST_WAIT = 3600.0
"""Seconds after which an end that lies ahead is looked at again: clocks are set, machines sleep."""
FOREIGN_RETRY = 30.0


class TenantReconciler:
    """`admin_names` are the names of the cloud admin's certificates; `now` is aware and UTC."""

    def __init__(
        self,
        client: KubeClient,
        tenants: Store[TenantState],
        nodes: Store[NodeState],
        *,
        admin_names: tuple[str, ...],
        pod_security: str,
        grants: Sequence[NamespaceGrant] = (),
        bounds: Sequence[Bound] = (),
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._tenants = tenants
        self._nodes = nodes
        self._admin_names = admin_names
        self._pod_security = pod_security
        self._own_grants = [grant for grant in grants if grant.cluster_role == OWN_ROLE]
        self._grants = [grant for grant in grants if grant.cluster_role != OWN_ROLE]
        self._bounds = tuple(bounds)
        self._now = now

    async def reconcile(self, name: str) -> Result:
        """One Tenant by its name; Transient where the API server or the namespace is not ready."""
        try:
            obj = await self._client.get(TENANTS, name)
        except ApiError as error:
            if error.not_found:
                return Done()
            raise
        if obj["metadata"].get("deletionTimestamp"):
            return Done()
        state = project_state(obj)
        obj, wait = await self._drop_expired(obj, state)
        namespace, again = await self._namespace(state)
        await self._write_status(obj, state, [self._identity(state), namespace, self._hosts(state)])
        waits = [seconds for seconds in (wait, again) if seconds is not None]
        return RequeueAfter(min(waits)) if waits else Done()

    async def _drop_expired(self, obj: JSON, state: TenantState) -> tuple[JSON, float | None]:
        """The object without certificates past their end, and the seconds to the next end.

        One always stays: with none, the name alone would be enough.
        """
        if state.tenant is None or not state.tenant.certificates:
            return obj, None
        now = self._now()
        pins = obj["spec"]["identity"]["certificates"]
        ends = [parse_until(pin["until"]) if pin.get("until") else None for pin in pins]
        kept = [pin for pin, end in zip(pins, ends, strict=True) if end is None or end > now]
        if not kept:
            last = max(end for end in ends if end is not None)
            kept = [pins[ends.index(last)]]
        if len(kept) < len(pins):
            patch = {
                "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
                "spec": {"identity": {"certificates": kept}},
            }
            obj = await self._client.patch(TENANTS, state.name, patch, patch_type="merge")
        ahead = [(end - now).total_seconds() for end in ends if end is not None and end > now]
        return obj, min(*ahead, LONGEST_WAIT) if ahead else None

    async def _namespace(self, state: TenantState) -> tuple[Finding, float | None]:
        """A suspended or broken tenant's namespace is left as it is: it may be on its way out."""
        kind = "NamespaceReady"
        if state.tenant is None or state.tenant.suspended:
            return Finding(kind, note="left as it is"), None
        try:
            await self._ensure(state.name)
        except ForeignNamespace as error:
            return Finding(kind, "ForeignNamespace", str(error)), FOREIGN_RETRY
        except ForeignGrant as error:
            return Finding(kind, "ForeignRoleBinding", str(error)), FOREIGN_RETRY
        except ForeignBound as error:
            return Finding(kind, "ForeignResourceQuota", str(error)), FOREIGN_RETRY
        except BoundsPending as error:
            return Finding(kind, "QuotaPending", str(error)), error.delay
        except NamespaceEnding as error:
            return Finding(kind, "NamespaceEnding", str(error)), error.delay
        except ApiError as error:
            if error.status in (403, 422):  # a policy of the cluster: tell, and try again later
                return Finding(kind, "NamespaceRefused", str(error)), FOREIGN_RETRY
            raise
        return Finding(kind), None

    async def _ensure(self, tenant: str) -> None:
        """In this order: what others may do there comes when the bounds hold."""
        namespace = tenant_namespace(tenant)
        await ensure_namespace(self._client, tenant, pod_security=self._pod_security)
        given, foreign = False, None
        try:
            given = await ensure_grants(self._client, namespace, self._own_grants)
        except ForeignGrant as error:
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

    def _identity(self, state: TenantState) -> Finding:
        kind = "IdentityReady"
        if state.tenant is None:
            return Finding(kind, "Invalid", state.problem)
        shared = identity_problems(state, self._tenants, self._admin_names)
        if shared:
            return Finding(kind, "IdentityShared", "; ".join(shared))
        pins, now = state.tenant.certificates, self._now()
        if pins and all(pin.until is not None and pin.until <= now for pin in pins):
            text = f"every certificate of the tenant has expired: berth tenant rotate {state.name}"
            return Finding(kind, "CertificatesExpired", text)
        return Finding(kind)

    def _hosts(self, state: TenantState) -> Finding:
        kind = "HostsReady"
        if state.tenant is None or state.tenant.hosts is None:
            return Finding(kind, note="Berth does not set the labels of this tenant's nodes")
        problems = host_problems(state, self._tenants, self._nodes)
        if problems:
            return Finding(kind, "HostTaken", "; ".join(problems))
        missing = [host for host in state.hosts if not self._nodes.by_index("host", host)]
        return Finding(kind, note=f"no node yet for {', '.join(missing)}" if missing else "")

    async def _write_status(self, obj: JSON, state: TenantState, findings: list[Finding]) -> None:
        metadata = obj["metadata"]
        status = tenant_status(
            findings,
            namespace=tenant_namespace(state.name),
            suspended=state.tenant is not None and state.tenant.suspended,
            generation=int(metadata.get("generation") or 0),
            present=obj.get("status") or {},
            now=self._now(),
        )
        if status == obj.get("status"):
            return
        body = TENANTS.body({"name": state.name, "uid": metadata["uid"]}, status=status)
        try:
            await self._client.apply(TENANTS, state.name, body, field_manager=FIELD_MANAGER, subresource="status")
        except ApiError as error:
            if error.conflict:  # another object of that name by now: its own event brings it here
                raise Transient(str(error)) from error
            if not error.not_found:
                raise
