"""Two Tenants in one cluster: the second one is refused, and what was doubled before is removed, once it is doubled."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from app.tenancy.gateway.caches import STREAM
from app.tenancy.model import CLUSTER, MOVED
from app.workloads.model import TENANTS, WORKLOADS
from tests.integration.tenancy.gateway.test_cluster import ONE, OTHER, Meeting, list_rules, noted, says
from tests.support.gateway_calls import Sender, spec, workload
from tests.support.tenancy import Door, Infra, Start
from tests.support.waiting import eventually

Code = grpc.StatusCode
OF_A_STREAM = "000001700000000-00000000"


async def annotate(infra: Infra, tenant: str, **annotations: str) -> None:
    found = {{"cluster": CLUSTER, "moved": MOVED}[key]: value for key, value in annotations.items()}
    await infra.client.patch(TENANTS, tenant, {"metadata": {"annotations": found}}, patch_type="merge")


def ends(door: Door, cluster: str, tenant: str, code: grpc.StatusCode) -> Any:
    async def look() -> bool:
        return (await list_rules(door, cluster, tenant=tenant))[0] is code

    return look


async def test_the_second_tenant_of_a_cluster_is_refused(infra: Infra, door: Door, start: Start) -> None:
    """At every replica, and the message does not name the other tenant."""
    assert await list_rules(door, ONE) == (Code.OK, "")
    for gateway in (door, await start()):
        code, message = await list_rules(gateway, ONE, tenant="tenant2")
        assert code is Code.FAILED_PRECONDITION
        assert f"cluster {ONE} (UID of namespace kube-system) belongs to another tenant than tenant2" in message
        assert "berth tenant add tenant2 --move" in message
        assert "tenant1" not in message
    assert await noted(infra, "tenant2") is None
    assert ("universe.workload.v1.WorkloadRuleService", "cluster_taken") in door.seen.refusals
    assert await list_rules(door, ONE) == (Code.OK, "")
    assert await list_rules(door, OTHER, tenant="tenant2") == (Code.OK, "")


async def test_two_tenants_that_call_at_one_moment_do_not_both_get_the_cluster(infra: Infra, start: Start) -> None:
    names = ("tenant1", "tenant2")
    for name in names:
        await infra.add_tenant(name)
    client = Meeting(infra.client)
    doors = [await start(client=client), await start(client=client)]

    async def both() -> dict[str, grpc.StatusCode]:
        calls = (list_rules(door, ONE, tenant=name) for door, name in zip(doors, names, strict=True))
        return {name: code for name, (code, _) in zip(names, await asyncio.gather(*calls), strict=True)}

    codes = await both()
    assert client.met == 2
    assert list(codes.values()).count(Code.OK) < 2
    codes = await eventually(both, lambda found: Code.OK in found.values())
    assert sorted(code.name for code in codes.values()) == ["FAILED_PRECONDITION", "OK"]
    assert {name: await noted(infra, name) for name in names} == {
        name: ONE if code is Code.OK else None for name, code in codes.items()
    }


async def test_of_two_notes_of_an_older_version_the_one_of_the_older_tenant_counts(infra: Infra, door: Door) -> None:
    """The other may have a cluster of its own."""
    for name in ("tenant2", "tenant1"):
        await annotate(infra, name, cluster=ONE)
    await eventually(ends(door, ONE, "tenant2", Code.FAILED_PRECONDITION))
    assert await list_rules(door, ONE) == (Code.OK, "")
    assert await list_rules(door, OTHER, tenant="tenant2") == (Code.OK, "")
    assert (await noted(infra), await noted(infra, "tenant2")) == (ONE, OTHER)


async def test_a_broken_tenant_keeps_its_cluster(infra: Infra, door: Door) -> None:
    assert await list_rules(door, ONE) == (Code.OK, "")
    await infra.client.patch(TENANTS, "tenant1", {"spec": {"identity": {"names": ["é"]}}}, patch_type="merge")
    await eventually(lambda: door.sources.tenants.get("", "tenant1") is None)
    assert (await list_rules(door, ONE, tenant="tenant2"))[0] is Code.FAILED_PRECONDITION


async def store(infra: Infra, tenant: str, workload_id: str, **annotations: str) -> None:
    metadata: dict[str, Any] = {"name": workload(workload_id), "annotations": annotations}
    body = WORKLOADS.body(metadata, spec=spec(workload_id))
    await infra.client.create(WORKLOADS, body, namespace=f"tenant-{tenant}")


def workloads(infra: Infra, tenant: str, *ids: str) -> Any:
    async def look() -> bool:
        return await infra.names(WORKLOADS, f"tenant-{tenant}") == {workload(one) for one in ids}

    return look


async def test_doubles_are_removed_when_the_tenant_of_the_cluster_has_sent_all(infra: Infra, door: Door) -> None:
    """Not before: until then they may be all that there is. What a person has made stays."""
    for name in ("tenant1", "tenant2"):
        await annotate(infra, name, cluster=ONE)
    await store(infra, "tenant2", "a", **{STREAM: OF_A_STREAM})
    await store(infra, "tenant2", "by-hand")
    await eventually(ends(door, ONE, "tenant2", Code.FAILED_PRECONDITION))
    sender = Sender(door.tenant("tenant1"), metadata=says(ONE))
    await sender.update("a")
    await eventually(workloads(infra, "tenant1", "a"))
    assert await workloads(infra, "tenant2", "a", "by-hand")()
    await sender.synced()
    await eventually(workloads(infra, "tenant2", "by-hand"))
    assert await workloads(infra, "tenant1", "a")()


async def test_what_a_tenant_has_of_another_cluster_by_now_stays(infra: Infra, start: Start) -> None:
    """Its workloads may be in the cache before the cluster that they are of."""
    names = ("tenant1", "tenant2", "tenant3")
    for name in names:
        await infra.add_tenant(name)
        await annotate(infra, name, cluster=ONE)
    door = await start()
    sources = door.sources
    await eventually(lambda: len(sources.rivals_of("tenant1")) == 2)
    before = sources.rivals_of("tenant1")
    await annotate(infra, "tenant2", cluster=OTHER)
    for name in names[1:]:
        await store(infra, name, "b", **{STREAM: OF_A_STREAM})
    await eventually(lambda: all(sources.count_workloads(f"tenant-{name}") for name in names[1:]))
    sources.rivals_of = lambda _name: before
    sender = Sender(door.tenant("tenant1"), metadata=says(ONE))
    await sender.synced()
    await eventually(workloads(infra, "tenant3"))
    assert await workloads(infra, "tenant2", "b")()


async def test_a_cluster_that_is_moved_is_the_new_tenants(infra: Infra, door: Door) -> None:
    """The stream of the one before it ends, and what that one has written goes when the new one has sent all."""
    before = Sender(door.tenant("tenant1"), metadata=says(ONE))
    await before.update("a")
    await before.synced()
    await eventually(workloads(infra, "tenant1", "a"))
    await annotate(infra, "tenant2", cluster=ONE, moved="2026-01-01T00:00:00Z")
    await eventually(ends(door, ONE, "tenant1", Code.FAILED_PRECONDITION))
    assert (await before.failure()).code() is Code.FAILED_PRECONDITION
    assert await workloads(infra, "tenant1", "a")()
    after = Sender(door.tenant("tenant2"), metadata=says(ONE))
    await after.update("a")
    await after.synced()
    await eventually(workloads(infra, "tenant1"))
    assert await workloads(infra, "tenant2", "a")()
