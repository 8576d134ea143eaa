"""What gateways note on Tenants of calls that they accept and refuse, and the condition that follows from it."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime, timedelta
from typing import Any

import grpc
import pytest

from app.errors import ApiError
from app.kube.conditions import condition
from app.logs import LogDedup
from app.tenancy.gateway.backend import Contacts
from app.tenancy.gateway.interceptor import Guard
from app.tenancy.gateway.settings import Limits
from app.tenancy.model import tenant_certificate_name
from app.tenancy.proto import rule_pb as pb
from app.text import utc_now
from app.workloads.model import TENANTS
from tests.integration.tenancy.gateway.test_cluster import ONE, OTHER, list_rules
from tests.support.gateway_calls import rules
from tests.support.tenancy import Door, Infra, Pki, Start
from tests.support.tenants import tenants_kit
from tests.support.waiting import eventually

Code = grpc.StatusCode
PIN = {"names": ["tenant1.tenant.local"], "certificates": [{"sha256": "0" * 64}]}


class Counted:
    """A client that counts writes of the status of Tenants."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.writes: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def apply(self, resource: Any, name: str, body: Any, **options: Any) -> Any:
        if resource == TENANTS:
            self.writes.append(body["status"])
        return await self._client.apply(resource, name, body, **options)


class Faulty:
    """A client whose writes of the status of Tenants fail while `fails`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.fails, self.failed, self.status = False, 0, 503

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def apply(self, resource: Any, name: str, body: Any, **options: Any) -> Any:
        if self.fails and resource == TENANTS:
            self.failed += 1
            raise ApiError("the API server is away", status=self.status)
        return await self._client.apply(resource, name, body, **options)


async def status(infra: Infra, name: str = "tenant1") -> dict[str, Any]:
    return (await infra.client.get(TENANTS, name)).get("status") or {}


async def pin(infra: Infra, identity: Any) -> None:
    await infra.client.patch(TENANTS, "tenant1", {"spec": {"identity": identity}}, patch_type="merge")


def refused_for(infra: Infra, reason: str) -> Any:
    async def look() -> bool:
        return bool((await status(infra)).get("lastRefusal", {}).get("reason") == reason)

    return look


async def test_contacts_and_refusals_are_noted_by_both_of_two_gateways(infra: Infra, start: Start) -> None:
    """About once a minute by all together; what one has noted the other does not take away."""
    await infra.add_tenant("tenant1")
    client = Counted(infra.client)
    doors = [await start(client=client), await start(client=client)]
    streams = [rules(door.tenant("tenant1")).Watch(pb.WatchWorkloadRulesRequest()) for door in doors]
    for stream in streams:
        assert (await stream.read()).synced
    await eventually(lambda: status(infra), lambda found: "lastContact" in found)
    for door in doors:
        await eventually(lambda door=door: door.sources.tenants.get("", "tenant1").link.contact)
    contacts = len(client.writes)
    assert contacts in (1, 2)  # two may have met
    assert (await list_rules(doors[0], ONE))[0] is Code.OK
    for door in (*doors, *doors):
        assert (await list_rules(door, OTHER))[0] is Code.FAILED_PRECONDITION
    await eventually(refused_for(infra, "OtherCluster"))
    for door in doors:
        await eventually(lambda door=door: door.sources.tenants.get("", "tenant1").link.refused)
        assert (await list_rules(door, OTHER))[0] is Code.FAILED_PRECONDITION
        await door.backend.contacts.write()
    found = await status(infra)
    assert found["lastRefusal"]["cluster"] == OTHER
    assert "belongs to another cluster" in found["lastRefusal"]["message"]
    assert "lastContact" in found
    assert sum("lastContact" in write for write in client.writes) == contacts
    assert sum("lastRefusal" in write for write in client.writes) <= 4


async def test_a_stream_that_is_silent_is_a_contact(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(contact=0.5))
    stream = rules(door.tenant("tenant1")).Watch(pb.WatchWorkloadRulesRequest())
    assert (await stream.read()).synced
    first = await eventually(lambda: status(infra), lambda found: found.get("lastContact"))
    await eventually(lambda: status(infra), lambda found: found["lastContact"] > first["lastContact"])


async def test_a_note_of_a_contact_reviews_no_streams(
    infra: Infra, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tenant has one every minute: with a review of all streams for each, a thousand tenants would be too many."""
    await infra.add_tenant("tenant1")
    door = await start(tick=3600.0)
    await eventually(lambda: door.sources.tenants.get("", "tenant1"))
    reviews: list[Guard] = []
    monkeypatch.setattr(Guard, "review", lambda guard: reviews.append(guard))  # noqa: PLW0108 - bound to the guard
    refusal = {"time": "2026-01-01T00:00:00Z", "reason": "OtherCluster", "message": "m"}
    noted = {"status": {"lastContact": "2026-01-01T00:00:00Z", "lastRefusal": refusal}}
    await infra.client.patch(TENANTS, "tenant1", noted, patch_type="merge", subresource="status")

    def link() -> Any:
        return door.sources.tenants.get("", "tenant1").link

    await eventually(lambda: link().contact is not None and link().refused is not None)
    assert reviews == []
    await infra.client.patch(TENANTS, "tenant1", {"spec": {"suspended": True}}, patch_type="merge")
    await eventually(lambda: bool(reviews))


async def test_a_contact_that_was_not_written_is_written_soon(infra: Infra, start: Start) -> None:
    """A minute later the condition Connected would be false already."""
    await infra.add_tenant("tenant1")
    client = Faulty(infra.client)
    door = await start(client=client, tick=3600.0)
    ahead = timedelta()
    contacts = Contacts(door.sources, LogDedup(), every=Limits().contact, now=lambda: utc_now() + ahead)
    client.fails = True
    contacts.accepted("tenant1")
    await contacts.write()
    assert (client.failed, "lastContact" in await status(infra)) == (1, False)
    client.fails = False
    ahead = timedelta(seconds=7)
    contacts.accepted("tenant1")
    await contacts.write()
    assert "lastContact" in await status(infra)


async def test_an_api_server_that_does_not_answer_is_not_asked_for_each_tenant(infra: Infra, start: Start) -> None:
    """Each request takes its whole deadline: the contacts of the last tenants would be noted when they are gone."""
    names = ("tenant1", "tenant2")
    for name in names:
        await infra.add_tenant(name)
    client = Faulty(infra.client)
    door = await start(client=client, tick=3600.0)
    contacts = door.backend.contacts
    client.fails, client.status = True, 0
    for name in names:
        contacts.accepted(name)
    await contacts.write()
    assert client.failed == 1
    client.fails = False
    for name in names:
        contacts.accepted(name)
    await contacts.write()
    assert ["lastContact" in await status(infra, name) for name in names] == [True, True]


async def test_notes_from_the_future_are_replaced(infra: Infra, start: Start) -> None:
    """A clock was wrong, or a person wrote them."""
    await infra.add_tenant("tenant1")
    door, late = await start(), "9999-12-31T23:59:59Z"
    assert (await list_rules(door, ONE))[0] is Code.OK
    assert (await list_rules(door, OTHER))[0] is Code.FAILED_PRECONDITION
    await eventually(refused_for(infra, "OtherCluster"))
    noted = {"lastContact": late, "lastRefusal": (await status(infra))["lastRefusal"] | {"time": late}}
    await infra.client.patch(TENANTS, "tenant1", {"status": noted}, patch_type="merge", subresource="status")
    another = await start()  # one that has not just noted them

    async def replaced() -> bool:
        await list_rules(another, ONE)
        await list_rules(another, OTHER)
        found = await status(infra)
        return late not in (found["lastContact"], found["lastRefusal"]["time"])

    await eventually(replaced)


async def test_strangers_leave_no_note(infra: Infra, start: Start, pki: Pki) -> None:
    """Nor does the name of a Tenant that is not there."""
    await infra.add_tenant("tenant1")
    client = Counted(infra.client)
    door = await start(client=client)
    for name in ("somebody.example", tenant_certificate_name("tenant9")):
        with contextlib.suppress(grpc.aio.AioRpcError):
            await rules(door.channel(pki.client(name))).List(pb.ListWorkloadRulesRequest())
    await door.backend.contacts.write()
    assert client.writes == []


async def test_the_tenant_says_that_its_agent_is_refused_and_is_right_again(infra: Infra, start: Start) -> None:
    """Two gateways and a controller; a holder of an old bundle changes nothing while the agent is connected."""
    await infra.add_tenant("tenant1")
    doors = [await start(limits=Limits(contact=0.2)), await start(limits=Limits(contact=0.2))]
    ahead = timedelta()

    def now() -> datetime:
        return utc_now() + ahead

    controller = tenants_kit(infra.client, resync=0.1, now=now)
    running = asyncio.create_task(controller.run())

    def says(truth: str, reason: str) -> Any:
        async def look() -> bool:
            found = condition(await status(infra), "Connected")
            return (found.get("status"), found.get("reason")) == (truth, reason)

        return look

    try:
        await eventually(says("Unknown", "NoContact"))
        assert (await list_rules(doors[0], ONE))[0] is Code.OK
        await eventually(says("True", "AgentConnected"))
        assert (await list_rules(doors[1], OTHER))[0] is Code.FAILED_PRECONDITION
        await eventually(refused_for(infra, "OtherCluster"))
        assert await says("True", "AgentConnected")()
        await pin(infra, PIN)  # as `berth tenant rotate --now` does
        await eventually(lambda: _refuses(doors[1]))
        ahead = timedelta(seconds=121)
        await eventually(says("False", "CertificateRefused"))
        message = condition(await status(infra), "Connected")["message"]
        assert message == "the gateway refuses the agent: tenant tenant1 has pinned other certificates than this one"
        await pin(infra, {"names": PIN["names"], "certificates": None})
        ahead = timedelta()

        async def connected() -> bool:
            await list_rules(doors[1], ONE)
            return bool(await says("True", "AgentConnected")())

        await eventually(connected)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _refuses(door: Door) -> bool:
    return (await list_rules(door, ONE))[0] is Code.PERMISSION_DENIED
