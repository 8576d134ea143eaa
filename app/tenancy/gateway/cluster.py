"""Binds a tenant to the first cluster that calls for it, recorded on the Tenant; refuses calls from other clusters.

An agent removes what its cluster does not have: with one bundle in two clusters, two agents would delete each other's
objects in turn, without an error. A call that names no cluster (a person's, by hand) is judged by its certificate.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import structlog

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.retry import until_no_conflict
from app.kube.turns import Turns
from app.tenancy.gateway.failures import Code, Refused, code_of, message_of
from app.tenancy.gateway.identity import Refusal
from app.tenancy.model import CLUSTER, CLUSTER_KEY, Tenant, cluster_of
from app.workloads.model import TENANTS

log = structlog.get_logger(__name__)

_IDENTITY = re.compile(r"[0-9A-Za-z][0-9A-Za-z._:-]{0,127}", re.ASCII)
_ATTEMPTS = 5
"""How often a note that met another change of the Tenant is tried."""
_AT_ONCE = 4
"""Tenants whose first call is looked into at a time."""


def cluster_refusal(tenant: Tenant, said: Sequence[str], *, certificate: str = "") -> Refusal | None:
    """Why a call that says it comes from the cluster `said` is not the tenant's; None where it may be."""
    if said and (len(set(said)) > 1 or not _IDENTITY.fullmatch(said[0])):
        message = f"the metadata {CLUSTER_KEY}: want one UID, that of namespace kube-system"
    elif said and tenant.cluster not in ("", said[0]):
        message = (
            f"tenant {tenant.name} belongs to another cluster: this call comes from {said[0]}, the tenant's cluster is "
            f"{tenant.cluster} (UIDs of namespace kube-system). One bundle is for one cluster: give this one a tenant "
            "of its own. If it has replaced the other one for good, run this in the infra cluster: "
            f"kubectl annotate tenant {tenant.name} {CLUSTER}-"
        )
    else:
        return None
    return Refusal("cluster", message, certificate)


class Clusters:
    """Notes a tenant's first cluster. Replicas agree, for the Tenant takes no note from who has not seen the last."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._turns = Turns(total=_AT_ONCE, each=1)

    async def claim(self, tenant: Tenant, said: Sequence[str]) -> Refusal | None:
        """For a call that `cluster_refusal` let pass: None if `said` is the tenant's cluster now, or none was said.

        Reads the Tenant object, because a cache may be behind. Raises Refused where that or the note fails.
        """
        if not said or tenant.cluster:
            return None

        async def attempt() -> str:
            found = await self._client.get(TENANTS, tenant.name)
            if known := cluster_of(found):
                return known
            version = found["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version, "annotations": {CLUSTER: said[0]}}}
            await self._client.patch(TENANTS, tenant.name, patch, patch_type="merge")
            log.info("cluster of the tenant noted", tenant=tenant.name, cluster=said[0])
            return said[0]

        async with self._turns.of(tenant.name):
            try:
                noted = await until_no_conflict(attempt, sleep=asyncio.sleep, attempts=_ATTEMPTS)
            except ApiError as error:
                code = Code.UNAVAILABLE if error.not_found or error.conflict else code_of(error)
                message = f"the cluster of tenant {tenant.name} cannot be noted: {message_of(error)}"
                raise Refused(code, message) from error
        return cluster_refusal(tenant.at(noted), said)
