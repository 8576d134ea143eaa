"""The condition Connected of Tenants, as the controller makes it of what gateways have noted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest_asyncio

from app.errors import ApiError
from app.kube.conditions import condition
from app.kube.events import EventRecorder
from app.kube.resources import EVENTS
from app.tenancy.controller.status import ACCEPTED, LINK_MANAGER
from app.tenancy.model import CLUSTER
from app.text import stamp
from app.workloads.model import TENANTS
from tests.support.counting import value
from tests.support.tenants import tenant
from tests.support.waiting import eventually


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 25, 12, tzinfo=UTC)
        self.looks = 0

    def __call__(self) -> datetime:
        self.looks += 1
        return self.now

    def ago(self, seconds: float) -> str:
        return stamp(self.now - timedelta(seconds=seconds))


@pytest_asyncio.fixture
async def clock(cluster: Any, controlled: Any) -> AsyncIterator[Clock]:
    """A controller at the cluster whose time is this clock's."""
    made = Clock()
    events = EventRecorder(lambda: cluster.client, role="controller", instance="test")
    writing = asyncio.create_task(events.run())
    await controlled(events=events, resync=0.1, now=made)
    yield made
    writing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await writing


async def note(cluster: Any, name: str = "tenant1", **status: Any) -> None:
    await cluster.client.patch(TENANTS, name, {"status": status}, patch_type="merge", subresource="status")


def says(cluster: Any, truth: str, reason: str, name: str = "tenant1") -> Any:
    async def look() -> bool:
        found = condition((await cluster.tenant(name)).get("status") or {}, "Connected")
        return (found.get("status"), found.get("reason")) == (truth, reason)

    return look


async def events(cluster: Any) -> list[tuple[str, str, str]]:
    page = await cluster.client.list_page(EVENTS, namespace="default")
    return [(item["involvedObject"]["name"], item["type"], item["reason"]) for item in page.items]


async def test_the_condition_follows_contacts_refusals_and_the_clock(cluster: Any, clock: Clock) -> None:
    """The other conditions stay, no status is written again and again, and each change is an Event and a metric."""
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await eventually(says(cluster, "Unknown", "NoContact"))
    await note(cluster, lastContact=clock.ago(0))
    await eventually(says(cluster, "True", "AgentConnected"))
    refused = {"time": clock.ago(-1), "reason": "CertificateRefused", "message": "pinned other certificates"}
    await note(cluster, lastRefusal=refused)
    await eventually(lambda: value(ACCEPTED.labels("tenant1", "AgentConnected")) == 1)
    clock.now += timedelta(seconds=121)
    await eventually(says(cluster, "False", "CertificateRefused"))
    status = (await cluster.tenant())["status"]
    assert "pinned other certificates" in condition(status, "Connected")["message"]
    assert {one["type"] for one in status["conditions"]} > {"Ready", "Connected", "IdentityReady"}
    assert (status["result"], status["lastRefusal"]) == ("success", refused)
    assert value(ACCEPTED.labels("tenant1", "CertificateRefused")) == 0
    before = await cluster.tenant()
    await note(cluster, lastContact=clock.ago(0))
    await eventually(says(cluster, "True", "AgentConnected"))
    clock.now += timedelta(seconds=121)
    await eventually(says(cluster, "False", "AgentSilent"))
    changes = ["AgentConnected", "CertificateRefused", "AgentConnected", "AgentSilent"]
    wanted = [("tenant1", "Normal" if one == "AgentConnected" else "Warning", one) for one in changes]
    # Two that say the same are one Event with a count.
    await eventually(lambda: events(cluster), lambda found: set(found) == set(wanted))
    assert before["metadata"]["generation"] == (await cluster.tenant())["metadata"]["generation"]


def samples() -> list[Any]:
    (family,) = ACCEPTED.collect()
    return family.samples


async def test_a_second_tenant_of_a_cluster(cluster: Any, clock: Clock) -> None:
    """It names the first one, and is right again when that one has the cluster no more."""
    for name in ("tenant1", "tenant2"):
        await cluster.client.create(TENANTS, tenant(name))
    annotated = {"metadata": {"annotations": {CLUSTER: "c"}}}
    await cluster.client.patch(TENANTS, "tenant1", annotated, patch_type="merge")
    refused = {"time": clock.ago(0), "reason": "ClusterTaken", "message": "another tenant", "cluster": "c"}
    await note(cluster, "tenant2", lastRefusal=refused)
    await eventually(says(cluster, "False", "ClusterTaken", "tenant2"))
    status = (await cluster.tenant("tenant2"))["status"]
    assert "berth tenant add tenant2 --move tenant1" in condition(status, "Connected")["message"]
    await eventually(lambda: events(cluster), lambda found: ("tenant2", "Warning", "ClusterTaken") in found)
    await cluster.client.patch(TENANTS, "tenant1", {"metadata": {"annotations": {CLUSTER: None}}}, patch_type="merge")
    await eventually(says(cluster, "Unknown", "NoContact", "tenant2"))
    await cluster.client.delete(TENANTS, "tenant2")
    await eventually(lambda: "tenant2" not in {sample.labels["tenant"] for sample in samples()})


class Unwritable:
    """A client that cannot write statuses while `fails`; `failed` counts those with the condition Connected."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.fails, self.failed = False, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def apply(self, resource: Any, name: str, body: Any, **options: Any) -> Any:
        if self.fails:
            self.failed += options["field_manager"] == LINK_MANAGER
            raise ApiError("the API server is away", status=503)
        return await self._client.apply(resource, name, body, **options)


async def test_an_outage_of_the_api_server_makes_no_agent_silent(cluster: Any, controlled: Any) -> None:
    """Gateways could not note contacts either, and need a moment to do so afterwards."""
    client, clock = Unwritable(cluster.client), Clock()
    await controlled(client=client, resync=0.1, now=clock)
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await note(cluster, lastContact=clock.ago(0))
    await eventually(says(cluster, "True", "AgentConnected"))
    client.fails = True
    clock.now += timedelta(seconds=121)
    await eventually(lambda: client.failed > 0)
    client.fails, looks = False, clock.looks
    await eventually(lambda: clock.looks > looks + 9)
    assert await says(cluster, "True", "AgentConnected")()
    clock.now += timedelta(seconds=31)
    await eventually(says(cluster, "False", "AgentSilent"))


class Counted:
    """A client that counts reads of Tenants, and writes of their status."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.reads = self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def get(self, resource: Any, name: str, **options: Any) -> Any:
        self.reads += resource == TENANTS
        return await self._client.get(resource, name, **options)

    async def apply(self, resource: Any, name: str, body: Any, **options: Any) -> Any:
        self.writes += resource == TENANTS
        return await self._client.apply(resource, name, body, **options)


async def test_what_others_write_of_a_status_is_no_reason_to_write_it(cluster: Any, controlled: Any) -> None:
    """The gateway writes once a minute, and no controller follows."""
    client, clock = Counted(cluster.client), Clock()
    await controlled(client=client, resync=0.1, now=clock)
    await cluster.client.create(TENANTS, tenant("tenant1"))
    await note(cluster, lastContact=clock.ago(0))
    await eventually(says(cluster, "True", "AgentConnected"))

    async def settled() -> bool:
        return bool((await cluster.tenant()).get("status", {}).get("result") == "success")

    await eventually(settled)
    rounds = client.reads
    await eventually(lambda: client.reads > rounds + 1)
    before = client.writes
    await note(cluster, lastContact=clock.ago(-1))
    rounds = client.reads
    await eventually(lambda: client.reads > rounds + 4)
    assert client.writes == before
