"""A role that begins knows little: nothing is taken for gone because it has not been heard of yet."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from app.kube.client import KubeClient
from app.kube.resources import PODS
from app.workloads.model import WORKLOADS
from tests.integration.faults.driver import Driver
from tests.integration.faults.oracle import Oracle
from tests.integration.faults.world import Tuning, world
from tests.support.tenancy import Pki


class SlowPods:
    """A client to whom the API server lists Pods last of all."""

    def __init__(self, client: KubeClient, listed: asyncio.Event) -> None:
        self._client = client
        self._listed = listed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list_page(self, resource: Any, **more: Any) -> Any:
        if resource is PODS:
            await self._listed.wait()
        return await self._client.list_page(resource, **more)


async def test_an_agent_to_whom_pods_are_listed_late(tmp_path: Path, pki: Pki) -> None:
    """Everything else is known, and the gateway is there: no Workload and no companion dies for it."""
    async with world(tmp_path, pki, Tuning(), 61) as made:
        driver = Driver(made, 61, {})
        await driver.change(25)
        await driver.converged()
        before = {obj["metadata"]["uid"] for obj in made.infra.all(WORKLOADS)}
        assert before
        listed = asyncio.Event()
        made.wrap = lambda client: SlowPods(client, listed)
        made.kill(made.lives["agent-tenant1"][0])
        await made.start("agent-tenant1")
        await asyncio.sleep(0.6)
        assert {obj["metadata"]["uid"] for obj in made.infra.all(WORKLOADS)} == before
        listed.set()
        await made.ready()
        await driver.converged()
        assert not Oracle(made, driver.book).differences
