"""Binds a tenant to the first cluster that calls for it, recorded on the Tenant.

An agent removes what its cluster does not have: with one bundle in two clusters, two agents would delete each other's
objects in turn, without an error. Calls from other clusters are refused (`cluster_refusal`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.retry import until_no_conflict
from app.kube.turns import Turns
from app.tenancy.gateway.failures import Code, Refused, code_of, message_of
from app.tenancy.model import CLUSTER, Tenant, cluster_of
from app.workloads.model import TENANTS

log = structlog.get_logger(__name__)

_ATTEMPTS = 5
"""How often a note that met another change of the Tenant is tried."""
_AT_ONCE = 4
"""Tenants whose first call is looked into at a time."""


class Clusters:
    """Notes a tenant's first cluster. Replicas agree, for the Tenant takes no note from who has not seen the last."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._turns = Turns(total=_AT_ONCE, each=1)

    async def claim(self, tenant: Tenant, said: Sequence[str]) -> Tenant:
        """The tenant with its cluster, for a call that `cluster_refusal` let pass: its first call says which.

        The tenant as it is where the call says none, or one is known. Reads the Tenant object, because a cache may be
        behind. Raises Refused where that or the note fails.
        """
        if not said or tenant.cluster:
            return tenant

        async def attempt() -> str:
            found = await self._client.get(TENANTS, tenant.name)
            if known := cluster_of(found):
                return known
            version, patch = found["metadata"]["resourceVersion"], {"metadata": {"annotations": {CLUSTER: said[0]}}}
            await self._client.patch(TENANTS, tenant.name, patch, patch_type="merge", version=version)
            log.info("cluster of the tenant noted", tenant=tenant.name, cluster=said[0])
            return said[0]

        async with self._turns.of(tenant.name):
            try:
                noted = await until_no_conflict(attempt, sleep=asyncio.sleep, attempts=_ATTEMPTS)
            except ApiError as error:
                code = Code.UNAVAILABLE if error.not_found or error.conflict else code_of(error)
                message = f"the cluster of tenant {tenant.name} cannot be noted: {message_of(error)}"
                raise Refused(code, message) from error
        return tenant.at(noted)
