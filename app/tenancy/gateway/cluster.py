"""Binds a tenant to the first cluster that calls for it, recorded on the Tenant; a cluster has one tenant.

An agent removes what its cluster does not have: with one bundle in two clusters, two agents would delete each other's
objects in turn, without an error. With bundles of two tenants in one cluster, all that it has would be there twice.
Such calls are refused (`cluster_refusal`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import structlog

from app.admission.patch import pointer
from app.errors import ApiError
from app.kube.retry import every_item, until_no_conflict
from app.kube.turns import Turns
from app.tenancy.gateway.caches import Sources
from app.tenancy.gateway.failures import Code, Refused, code_of, message_of
from app.tenancy.gateway.identity import Refusal, cluster_refusal
from app.tenancy.link import CLUSTER, MOVED, Link, holder_of, link_of
from app.tenancy.model import Tenant
from app.workloads.model import TENANTS

log = structlog.get_logger(__name__)

_ATTEMPTS = 5
"""How often a note that met another change is tried."""
_PATH = pointer("metadata", "annotations", CLUSTER)
_AT_ONCE = 4
"""Clusters whose first call is looked into at a time."""


class Clusters:
    """Notes a tenant's first cluster. Replicas agree, because each reads all Tenants again after its note.

    Where two Tenants have noted one cluster at a time, at least one of the two reads shows both notes. Who sees the
    note of another takes back its own and begins again.
    """

    def __init__(self, sources: Sources) -> None:
        self._client = sources.client
        self._turns = Turns(total=_AT_ONCE, each=1)

    async def claim(self, tenant: Tenant, said: Sequence[str]) -> Refusal | None:
        """For a call that `cluster_refusal` let pass: note its cluster, unless it is noted; why it is refused now.

        Reads the Tenant objects, because a cache may be behind. Raises Refused where that or the note fails.
        """
        if not said or tenant.link.cluster == said[0]:
            return None
        async with self._turns.of(said[0]):
            try:
                attempt = partial(self._attempt, tenant, said)
                return await until_no_conflict(attempt, sleep=asyncio.sleep, attempts=_ATTEMPTS)
            except ApiError as error:
                code = Code.UNAVAILABLE if error.not_found or error.conflict else code_of(error)
                message = f"the cluster of tenant {tenant.name} cannot be noted: {message_of(error)}"
                raise Refused(code, message) from error

    async def _attempt(self, tenant: Tenant, said: Sequence[str]) -> Refusal | None:
        found, links = await self._client.get(TENANTS, tenant.name), await self._links()
        fresh = replace(tenant, link=links.get(tenant.name, Link()))
        refusal = cluster_refusal(fresh, said, holder_of=lambda cluster: holder_of(cluster, links.items()))
        if refusal is not None or fresh.link.cluster == said[0]:
            return refusal
        note = {"metadata": {"annotations": {CLUSTER: said[0], MOVED: None}}}
        version = found["metadata"]["resourceVersion"]
        await self._client.patch(TENANTS, tenant.name, note, patch_type="merge", version=version)
        links = await self._links()
        if any(link.cluster == said[0] for name, link in links.items() if name != tenant.name):
            await self._withdraw(tenant.name, said[0])
            raise ApiError("another tenant has noted the same cluster", status=409, reason="Conflict")
        log.info("cluster of the tenant noted", tenant=tenant.name, cluster=said[0])
        return None

    async def _links(self) -> dict[str, Link]:
        """What is noted on each Tenant, those that cannot be used among them."""
        items = every_item(lambda token: self._client.list_page(TENANTS, continue_token=token))
        return {item["metadata"]["name"]: link_of(item) async for item in items}

    async def _withdraw(self, tenant: str, cluster: str) -> None:
        # The note is compared, not the version: another change of the Tenant, as of its status, must not prevent this.
        patch = [{"op": verb, "path": _PATH, "value": cluster} for verb in ("test", "remove")]
        await self._client.patch(TENANTS, tenant, patch, patch_type="json")
