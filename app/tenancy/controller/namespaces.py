"""Keeps a tenant's namespace: the namespace itself, and what belongs in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.tenancy.controller.namespace_objects import OWN_ROLE, NamespaceObject, bounds_of, ensure_bounds, ensure_grants
from app.tenancy.controller.state import TenantState
from app.tenancy.controller.status import Finding
from app.tenancy.tenants.namespace import Foreign, NotReady, ensure_namespace
from app.workloads.model import tenant_namespace

FOREIGN_RETRY = 30.0


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
