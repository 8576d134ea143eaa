"""What a caller can make the gateway hold: messages that never end, requests that wait, answers that nobody takes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import grpc
import pytest

from app.kube.resources import CONFIG_MAPS
from app.tenancy.gateway.settings import Limits
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.workloads.model import TENANTS
from tests.integration.tenancy.gateway.halfsent import HalfSent
from tests.support.gateway_calls import fails, manifest, put, resources, rules, type_of
from tests.support.tenancy import Infra, Start
from tests.support.waiting import PATIENCE, eventually

CODE = grpc.StatusCode
UPDATE = "/universe.resource.v1.UniverseResourceService/Update"
STREAM = "/universe.workload.v1.WorkloadService/WorkloadStream"
WATCH = "/universe.workload.v1.WorkloadRuleService/Watch"
MIB = 1024 * 1024


@pytest.mark.parametrize("path", [UPDATE, STREAM, WATCH, "/grpc.health.v1.Health/Check"])
async def test_messages_that_do_not_end_are_bounded_by_caller(infra: Infra, start: Start, path: str) -> None:
    """240 calls on four connections, each with 4 MB announced, would be 960 MB; another caller is served meanwhile."""
    await infra.add_tenant("tenant1")
    await infra.add_tenant("tenant2")
    limits = Limits(calls_per_second=10_000, calls_burst=10_000, exchange=10 * PATIENCE)
    door = await start(limits=limits)
    connections = [
        await HalfSent.begin(door, "tenant1", path=path, calls=60, size=limits.message_bytes) for _ in range(4)
    ]
    await asyncio.gather(*(connection.send_all_it_can() for connection in connections))
    whole = max(limits.requests_per_tenant, limits.streams_per_tenant) * limits.message_bytes
    others = 4 * 60 * limits.unread_bytes
    assert 0 < sum(connection.sent for connection in connections) <= whole + others
    await rules(door.tenant("tenant2")).List(pb.ListWorkloadRulesRequest(), timeout=PATIENCE)
    for connection in connections:
        await connection.end()


async def test_a_stranger_fills_nothing(infra: Infra, start: Start) -> None:
    """Its calls are refused before anything of them is read."""
    await infra.add_tenant("tenant1")
    door = await start()
    stranger = await HalfSent.begin(door, "stranger", path=UPDATE, calls=50, size=4 * MIB)
    await stranger.send_all_it_can()
    assert stranger.sent <= 50 * Limits().unread_bytes
    await eventually(lambda: len(door.seen.refusals) == 50)
    await stranger.end()


async def test_a_request_that_does_not_come_in_ends_its_call(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(exchange=0.2, requests_per_tenant=1))
    channel = door.tenant("tenant1")
    silent = channel.stream_unary(UPDATE)()
    error = await fails(silent)
    assert error.code() is CODE.DEADLINE_EXCEEDED
    assert "did not come in whole within 0.2 s" in (error.details() or "")
    half = await HalfSent.begin(door, "tenant1", path=UPDATE, calls=3, size=MIB)
    while half.ended < 3:
        await half.send_all_it_can()
    await half.end()

    async def has_room() -> bool:
        with contextlib.suppress(grpc.aio.AioRpcError):  # on a busy machine a request may take longer, too
            await rules(channel).List(pb.ListWorkloadRulesRequest())
            return True
        return False

    await eventually(has_room)


async def test_a_call_without_a_request_is_invalid(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start()
    call = door.tenant("tenant1").stream_unary(UPDATE)()
    await call.done_writing()
    error = await fails(call)
    assert error.code() is CODE.INVALID_ARGUMENT
    assert "carries no request" in (error.details() or "")


async def one_too_many(calls: list[Any]) -> list[Any]:
    """The calls that are under way when one of these has been refused."""
    await eventually(lambda: any(call.done() for call in calls))
    (refused,) = (call for call in calls if call.done())
    error = await fails(refused)
    assert error.code() is CODE.RESOURCE_EXHAUSTED
    assert "too many calls under way" in (error.details() or "")
    return [call for call in calls if call is not refused]


async def listed(channel: Any) -> bool:
    return await rules(channel).List(pb.ListWorkloadRulesRequest(), timeout=PATIENCE).code() is CODE.OK


async def test_calls_under_way_are_limited_by_caller(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    await infra.add_tenant("tenant2")
    door = await start(limits=Limits(calls_per_tenant=2))
    channel = door.tenant("tenant1")
    silent = await one_too_many([channel.stream_unary(UPDATE)() for _ in range(3)])
    assert ("tenant1", "calls") in door.seen.throttles
    await rules(door.tenant("tenant2")).List(pb.ListWorkloadRulesRequest(), timeout=PATIENCE)
    for call in silent:
        call.cancel()
        await eventually(lambda: listed(channel))


async def test_an_answer_that_is_not_taken_ends_its_call(infra: Infra, start: Start) -> None:
    """And its connection: gRPC would keep what it is to send."""
    await infra.add_tenant("tenant1")
    patient = (await start()).tenant("tenant1")
    for number in range(4):
        await put(patient, manifest("ConfigMap", f"large{number}", data={"a": "x" * 900_000}))
    door = await start(limits=Limits(exchange=1.0, keepalive=10 * PATIENCE, calls_per_tenant=3))
    request = resource_pb.ListRequest(type=type_of("ConfigMap")).SerializeToString()
    reader = await HalfSent.begin(
        door, "tenant1", path="/universe.resource.v1.UniverseResourceService/List", calls=3, message=request
    )
    await reader.send_all_it_can()
    reader.complete()
    await eventually(lambda: [code for _, method, code in door.seen.calls if method == "List"] == ["CANCELLED"] * 3)
    assert await listed(door.tenant("tenant1"))
    await reader.closed_by_server()
    await reader.end()


async def test_a_list_that_is_too_large_is_refused(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(message_bytes=2 * MIB))
    channel = door.tenant("tenant1")
    for number in range(3):
        await put(channel, manifest("ConfigMap", f"large{number}", data={"a": "x" * 900_000}), owner=f"o{number % 2}")
    everything = resource_pb.ListRequest(type=type_of("ConfigMap"))
    error = await fails(resources(channel).List(everything))
    assert error.code() is CODE.RESOURCE_EXHAUSTED
    assert "owner" in (error.details() or "")
    narrowed = resource_pb.ListRequest(type=type_of("ConfigMap"), owner="o0")
    assert len((await resources(channel).List(narrowed)).objects) == 2
    assert len(await infra.names(CONFIG_MAPS, "tenant-tenant1")) >= 3


@pytest.mark.parametrize(
    "content",
    [b"[" + b"[]," * 60_000 + b"1]", b'{"a":' + json.dumps(dict.fromkeys(map(str, range(60_000)))).encode() + b"}"],
)
async def test_a_manifest_of_very_many_values_is_refused(infra: Infra, start: Start, content: bytes) -> None:
    await infra.add_tenant("tenant1")
    door = await start()
    document: Any = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":' + content + b"}"
    error = await fails(put(door.tenant("tenant1"), document, kind="ConfigMap"))
    assert error.code() is CODE.INVALID_ARGUMENT
    assert "more than 50000 values" in (error.details() or "")


async def test_a_tenant_that_is_suspended_while_its_calls_wait_is_refused(infra: Infra, start: Start) -> None:
    """A call that waits was let in before; what it asks for is not done any more."""
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(requests_per_tenant=1, calls_per_tenant=2, exchange=10 * PATIENCE))
    first = await HalfSent.begin(door, "tenant1", path=UPDATE, calls=1, size=MIB)
    await first.send_all_it_can()
    channel = door.tenant("tenant1")
    (waiting,) = await one_too_many([rules(channel).List(pb.ListWorkloadRulesRequest()) for _ in range(2)])
    await infra.client.patch(TENANTS, "tenant1", {"spec": {"suspended": True}}, patch_type="merge")
    await eventually(lambda: (tenant := door.sources.tenants.get("", "tenant1")) and tenant.suspended)
    await first.end()
    assert (await fails(waiting)).code() is CODE.PERMISSION_DENIED
    await infra.client.patch(TENANTS, "tenant1", {"spec": {"suspended": False}}, patch_type="merge")
    await eventually(lambda: not door.sources.tenants.get("", "tenant1").suspended)
    assert await listed(channel)
