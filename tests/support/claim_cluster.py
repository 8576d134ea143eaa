"""A cluster with networks and claims: the sandbox's API server over HTTP, and the controller of templates."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from app.appwrappers.model import APP_WRAPPERS
from app.claims.claim_templates import ClaimTemplates
from app.devtools.clusters.definitions import install
from app.devtools.sandbox.server import Cluster
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.resources import NAMESPACES, NETWORK_ATTACHMENTS, RESOURCE_CLAIM_TEMPLATES, Resource
from app.kube.transport import connect
from tests.support.claim_reviews import DEFINITIONS, SYSTEM
from tests.support.running import at_work
from tests.support.waiting import PATIENCE, eventually
from tests.support.workloads import CountingClient, Infra

JSON = dict[str, Any]
NAMESPACE = "default"


class ClaimCluster(Infra):
    """No controller but ours runs there."""

    @contextlib.asynccontextmanager
    async def controller(
        self, client: CountingClient | None = None, *, events: bool = False, **options: Any
    ) -> AsyncIterator[CountingClient]:
        """With `events` it writes Events."""
        async with self.connected(client) as own:
            recorder = EventRecorder(lambda: own, role="controller", instance="i") if events else None
            kit = Kit(own, events=recorder, resync=options.pop("resync", None))
            ClaimTemplates(kit, **({"namespace": SYSTEM, "config_map": DEFINITIONS} | options))
            async with at_work(kit, recorder):
                yield own

    async def make(self, body: JSON, resource: Resource, namespace: str = NAMESPACE) -> JSON:
        body["metadata"].pop("uid", None)
        namespace = body["metadata"].get("namespace") or namespace
        return await self.admin.create(resource, body, namespace=namespace if resource.namespaced else None)

    def template(self, name: str, namespace: str = NAMESPACE) -> JSON | None:
        found = self.stored(RESOURCE_CLAIM_TEMPLATES, namespace)
        return next((one for one in found if one["metadata"]["name"] == name), None)

    async def has(self, name: str, namespace: str = NAMESPACE, *, other_than: str = "") -> JSON:
        """The template, as soon as it is there; `other_than` is a UID that does not count."""
        found = await eventually(
            lambda: self.template(name, namespace), lambda one: one and one["metadata"]["uid"] != other_than
        )
        assert found is not None
        return found

    async def lacks(self, name: str, namespace: str = NAMESPACE) -> None:
        await eventually(lambda: self.template(name, namespace) is None)


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ClaimCluster]:
    async with Cluster("tenant1") as served:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(served.kubeconfig())
        async with await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as admin:
            for name in (SYSTEM, "team-a", "team-b"):
                await admin.create(NAMESPACES, NAMESPACES.body({"name": name}))
            await install(admin, (NETWORK_ATTACHMENTS, APP_WRAPPERS))
            yield ClaimCluster(served, kubeconfig, admin)
