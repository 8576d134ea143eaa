"""One bundle in two clusters: the first cluster that names itself is the tenant's, any other one is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from app.errors import ApiError
from app.tenancy.gateway.identity import cluster_refusal
from app.tenancy.model import CLUSTER, CLUSTER_KEY, Link, Tenant
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.workloads.model import TENANTS
from tests.support.gateway_calls import rule, rules
from tests.support.tenancy import Door, Infra, Start
from tests.support.waiting import PATIENCE, eventually

Code = grpc.StatusCode
ONE, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def says(cluster: str) -> tuple[tuple[str, str], ...]:
    return ((CLUSTER_KEY, cluster),)


async def list_rules(door: Door, *clusters: str, tenant: str = "tenant1") -> tuple[grpc.StatusCode, str]:
    """How a call that names these clusters ends."""
    metadata = [pair for cluster in clusters for pair in says(cluster)]
    try:
        await rules(door.tenant(tenant)).List(pb.ListWorkloadRulesRequest(), metadata=metadata)
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    return Code.OK, ""


async def noted(infra: Infra, tenant: str = "tenant1") -> str | None:
    annotations = (await infra.client.get(TENANTS, tenant))["metadata"].get("annotations") or {}
    found: str | None = annotations.get(CLUSTER)
    return found


async def annotate(infra: Infra, cluster: str | None) -> None:
    body = {"metadata": {"annotations": {CLUSTER: cluster}}}
    await infra.client.patch(TENANTS, "tenant1", body, patch_type="merge")


async def test_the_first_cluster_is_noted_and_another_one_refused(infra: Infra, door: Door) -> None:
    assert await list_rules(door, ONE) == (Code.OK, "")
    assert await noted(infra) == ONE
    code, message = await list_rules(door, OTHER)
    assert code is Code.FAILED_PRECONDITION
    for part in ("tenant tenant1 belongs to another cluster", ONE, OTHER, f"annotate tenant tenant1 {CLUSTER}-"):
        assert part in message
    assert await list_rules(door, ONE) == (Code.OK, "")
    assert await noted(infra) == ONE
    assert ("universe.workload.v1.WorkloadRuleService", "cluster") in door.seen.refusals


async def test_another_clusters_writes_do_nothing(infra: Infra, door: Door) -> None:
    await list_rules(door, ONE)
    service = rules(door.tenant("tenant1"))
    await service.Create(pb.CreateWorkloadRuleRequest(rule=rule()), metadata=says(ONE))
    for call in (
        service.Delete(pb.DeleteWorkloadRuleRequest(id="rule1"), metadata=says(OTHER)),
        service.Update(pb.UpdateWorkloadRuleRequest(rule=rule("rule2")), metadata=says(OTHER)),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is Code.FAILED_PRECONDITION
    found = await service.List(pb.ListWorkloadRulesRequest())
    assert [one.id for one in found.rules] == ["rule1"]


async def test_calls_that_name_no_cluster_are_served_and_note_nothing(infra: Infra, door: Door) -> None:
    """A person's, by hand."""
    assert await list_rules(door) == (Code.OK, "")
    assert await noted(infra) is None
    await list_rules(door, ONE)
    assert await list_rules(door) == (Code.OK, "")


async def test_tenants_have_clusters_of_their_own(infra: Infra, door: Door) -> None:
    """One cluster may even be two tenants."""
    await list_rules(door, ONE)
    assert await list_rules(door, OTHER, tenant="tenant2") == (Code.OK, "")
    assert (await noted(infra), await noted(infra, "tenant2")) == (ONE, OTHER)


async def test_after_the_note_is_removed_the_next_cluster_takes_over(infra: Infra, door: Door) -> None:
    """As the message says; the streams of the one before it end with the same words."""
    stream = rules(door.tenant("tenant1")).Watch(pb.WatchWorkloadRulesRequest(), metadata=says(ONE))
    assert (await stream.read()).synced
    await annotate(infra, None)

    async def taken() -> bool:
        return (await list_rules(door, OTHER))[0] is Code.OK

    await eventually(taken)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(stream.read(), PATIENCE)
    assert caught.value.code() is Code.FAILED_PRECONDITION
    assert "belongs to another cluster" in (caught.value.details() or "")
    assert await noted(infra) == OTHER


class Meeting:
    """Two replicas' client: both have read the Tenant before either writes."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.barrier = asyncio.Barrier(2)
        self.met = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def patch(self, resource: Any, name: str, body: Any, **options: Any) -> Any:
        if resource == TENANTS and self.met < 2:
            self.met += 1
            await self.barrier.wait()
        return await self._client.patch(resource, name, body, **options)


async def test_two_replicas_agree(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    client = Meeting(infra.client)
    doors = [await start(client=client), await start(client=client)]
    codes = await asyncio.gather(list_rules(doors[0], ONE), list_rules(doors[1], OTHER))
    assert client.met == 2
    assert sorted(code.name for code, _ in codes) == ["FAILED_PRECONDITION", "OK"]
    assert await noted(infra) == (ONE if codes[0][0] is Code.OK else OTHER)


class Forbidden:
    """A client that may not patch."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def patch(self, *_args: Any, **_options: Any) -> Any:
        raise ApiError("PATCH: HTTP 403: tenants is forbidden", status=403, reason="Forbidden")


async def test_a_cluster_that_cannot_be_noted_is_not_served(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(client=Forbidden(infra.client))
    code, message = await list_rules(door, ONE)
    assert code is Code.FAILED_PRECONDITION
    assert message == "the cluster of tenant tenant1 cannot be noted: tenants is forbidden"
    assert await list_rules(door) == (Code.OK, "")


@pytest.mark.parametrize("said", [("",), ("a b",), ("x" * 200,), (ONE, OTHER)])
async def test_what_is_no_identity_is_refused_and_not_noted(infra: Infra, door: Door, said: tuple[str, ...]) -> None:
    assert (await list_rules(door, *said))[0] is Code.FAILED_PRECONDITION
    assert await noted(infra) is None


def test_the_same_identity_twice_is_one() -> None:
    tenant = Tenant("tenant1", "tenant-tenant1", "", ("n",), link=Link(ONE))
    assert cluster_refusal(tenant, (ONE, ONE)) is None
    refusal = cluster_refusal(tenant, (OTHER,))
    assert refusal is not None
    assert refusal.reason == "cluster"
