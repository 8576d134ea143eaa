"""Removes what other Tenants have of a cluster that is another's: the same workloads would be there twice.

An older version of Berth let the agent of a cluster in with the bundles of several tenants, and a cluster may be moved
from one Tenant to another. The Workloads of the others are removed only once the tenant that has the cluster has sent
all of its own: companions are there before their doubles go, and a tenant that is merely disconnected loses nothing.
"""

from __future__ import annotations

import asyncio

import structlog

from app.errors import ApiError
from app.kube.retry import get_or_none, if_there
from app.kube.walls import wall
from app.tenancy.gateway.backend import Backend
from app.tenancy.link import holder_of, link_of
from app.workloads.model import TENANTS, WORKLOADS

log = structlog.get_logger(__name__)


class Doubles:
    """`work` removes them after each `look`, for as long as it runs."""

    def __init__(self, backend: Backend, tenant: str) -> None:
        self._backend, self._tenant = backend, tenant
        self._wake = asyncio.Event()

    def look(self) -> None:
        """The tenant has sent all of its workloads."""
        self._wake.set()

    async def work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for rival in self._backend.sources.rivals_of(self._tenant):
                with wall("doubles", tenant=rival.name):
                    await self._removed(rival.name, rival.namespace)

    async def _removed(self, rival: str, namespace: str) -> None:
        try:
            await self._remove(rival, namespace)
        except ApiError as error:  # the next `synced` comes within a minute
            log.info("workloads of another tenant not removed", tenant=rival, error=str(error))

    async def _remove(self, rival: str, namespace: str) -> None:
        """What a stream of the gateway has written there; what was made by hand stays."""
        backend = self._backend
        doubled = [workload for workload in backend.sources.workloads_in(namespace) if workload.stream]
        if not doubled or not await self._is_rival(rival):
            return
        for workload in doubled:
            async with backend.turns.of(namespace):
                await if_there(backend.client.delete(WORKLOADS, workload.name, namespace=namespace, uid=workload.uid))
        log.info("workloads removed: another tenant has the cluster", tenant=rival, workloads=len(doubled))

    async def _is_rival(self, name: str) -> bool:
        """Ask the API server: of a rival that has a cluster of its own now, the cache may show what that one has sent.

        That it has another cluster may arrive later, by another watch.
        """
        found = {tenant: await get_or_none(self._backend.client, TENANTS, tenant) for tenant in (self._tenant, name)}
        links = {one: link_of(obj) for one, obj in found.items() if obj is not None}
        return name in links and holder_of(links[name].cluster, links.items()) == self._tenant
