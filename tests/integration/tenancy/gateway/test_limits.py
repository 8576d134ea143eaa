"""What one tenant may take, and that another does not feel it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from app.kube.resources import PODS
from app.tenancy.gateway.resource_service import UniverseResourceService
from app.tenancy.gateway.settings import Limits
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.workloads.model import COMPANION, TENANTS, WORKLOADS
from tests.support.gateway_calls import POD, Sender, fails, pod, put, resources, rule, rules, workload
from tests.support.tenancy import Door, Infra, Start
from tests.support.waiting import PATIENCE, eventually

CODE = grpc.StatusCode


async def test_calls_are_limited_by_tenant_with_a_hint(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    await infra.add_tenant("tenant2")
    door = await start(limits=Limits(calls_per_second=0.1, calls_burst=3))
    stub = rules(door.tenant("tenant1"))
    for _ in range(3):
        await stub.List(pb.ListWorkloadRulesRequest())
    error = await fails(stub.List(pb.ListWorkloadRulesRequest()))
    assert error.code() is CODE.RESOURCE_EXHAUSTED
    hint = dict(error.trailing_metadata() or ())["grpc-retry-pushback-ms"]
    assert 1000 < int(hint) <= 10_001
    assert door.seen.throttles == [("tenant1", "rate")]
    await rules(door.tenant("tenant2")).List(pb.ListWorkloadRulesRequest())


HOLDING = Limits(calls_per_second=1e-3, calls_burst=1, hold=10 * PATIENCE, held_calls=1)


async def holds_one(door: Door, call: Callable[[], Any]) -> Any:
    """Of the calls over the rate one is held; the code with which another is refused meanwhile. Twice, as none stays."""
    for number in (1, 2):
        held = call()
        await eventually(lambda count=2 * number - 1: len(door.seen.throttles) == count)
        code = (await fails(call())).code()
        assert not held.done()
        held.cancel()
        await eventually(lambda count=number: [code for _, _, code in door.seen.calls].count("CANCELLED") == count)
    return code


async def test_calls_over_the_rate_are_held_before_they_are_refused(infra: Infra, start: Start) -> None:
    """Who asks again at once would keep the door busy through which the calls of all the others come."""
    await infra.add_tenant("tenant1")
    door = await start(limits=HOLDING)
    stub = rules(door.tenant("tenant1"))
    await stub.List(pb.ListWorkloadRulesRequest())
    assert await holds_one(door, lambda: stub.List(pb.ListWorkloadRulesRequest())) is CODE.RESOURCE_EXHAUSTED
    assert set(door.seen.throttles) == {("tenant1", "rate")}


async def test_events_are_read_no_faster_than_the_limit(infra: Infra, start: Start) -> None:
    """The sender waits, and nothing is lost."""
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(events_per_second=20, events_burst=5))
    sender = Sender(door.tenant("tenant1"))
    for number in range(10):
        await sender.update(f"w{number}")
    await eventually(lambda: len(door.seen.events) >= 6)
    assert len(door.seen.events) < 10
    await sender.close()
    assert await infra.names(WORKLOADS, "tenant-tenant1") == {workload(f"w{n}") for n in range(10)}


async def test_bytes_are_taken_no_faster_than_the_limit(infra: Infra, start: Start) -> None:
    """Beyond it nothing more of that tenant comes in; another's does."""
    await infra.add_tenant("tenant1")
    await infra.add_tenant("tenant2")
    door = await start(limits=Limits(bytes_per_second=1e-3, bytes_burst=200_000))
    sender, count = Sender(door.tenant("tenant1")), 40

    async def send() -> None:
        for number in range(count):
            await sender.update(f"w{number}", extra={"labels": {}, "annotations": {"big": "x" * 50_000}})

    sending = asyncio.create_task(send())
    await eventually(lambda: len(door.seen.events) >= 3)
    for _ in range(20):
        await rules(door.tenant("tenant2")).List(pb.ListWorkloadRulesRequest(), timeout=PATIENCE)
    assert len(door.seen.events) <= 6  # of 50 kB each, the first of which came before the caller was known
    sending.cancel()
    sender.call.cancel()


async def test_nothing_of_a_fast_sender_is_lost(infra: Infra, start: Start) -> None:
    """A message larger than the burst is read all the same."""
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(bytes_per_second=2_000_000, bytes_burst=35_000))
    sender, count = Sender(door.tenant("tenant1")), 40
    for number in range(count):
        await sender.update(f"w{number}", extra={"labels": {}, "annotations": {"big": "x" * 50_000}})
    await sender.close()
    assert await infra.names(WORKLOADS, "tenant-tenant1") == {workload(f"w{n}") for n in range(count)}


async def test_refused_calls_are_held_where_they_are_too_many(infra: Infra, start: Start) -> None:
    """They come through the same door as all others; the tenant's good calls are counted apart."""
    await infra.add_tenant("tenant1")
    door = await start(limits=HOLDING)
    stub, false = rules(door.tenant("tenant1")), (("tenant-id", "tenant2"),)
    first = await fails(stub.List(pb.ListWorkloadRulesRequest(), metadata=false))
    assert not door.seen.throttles
    refused = await holds_one(door, lambda: stub.List(pb.ListWorkloadRulesRequest(), metadata=false))
    assert {first.code(), refused} == {CODE.PERMISSION_DENIED}
    assert set(door.seen.throttles) == {("certificate tenant1.tenant.local", "refused")}
    assert len(door.seen.refusals) == 3
    await stub.List(pb.ListWorkloadRulesRequest())


async def test_open_streams_are_limited_by_tenant(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    await infra.add_tenant("tenant2")
    door = await start(limits=Limits(streams_per_tenant=2))
    channels = [door.tenant("tenant1"), door.tenant("tenant1")]  # connections make no difference
    watches = [rules(channel).Watch(pb.WatchWorkloadRulesRequest()) for channel in channels]
    for watch in watches:
        assert (await watch.read()).synced
    error = await fails(resources(channels[0]).Watch(resource_pb.WatchRequest()))
    assert error.code() is CODE.RESOURCE_EXHAUSTED
    assert (await Sender(channels[1]).failure()).code() is CODE.RESOURCE_EXHAUSTED
    other = rules(door.tenant("tenant2")).Watch(pb.WatchWorkloadRulesRequest())
    assert (await other.read()).synced
    watches[0].cancel()
    await eventually(lambda: door.seen.open["tenant1"] == 1)
    again = rules(channels[0]).Watch(pb.WatchWorkloadRulesRequest())
    assert (await again.read()).synced
    for call in (watches[1], other, again):
        call.cancel()


async def test_a_message_over_the_limit_is_refused_and_the_connection_lives(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(message_bytes=100_000))
    channel = door.tenant("tenant1")
    assert (await fails(put(channel, b"x" * 200_000, kind="Pod"))).code() is CODE.RESOURCE_EXHAUSTED
    await put(channel, pod("x"))


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_compressed_messages_are_refused(door: Door, compression: Any) -> None:
    """They are measured before they are inflated: 4 MiB could become 4 GiB."""
    request = resource_pb.UpdateRequest(obj=resource_pb.ResourceObject(obj_spec=b" " * 3_000_000))
    error = await fails(resources(door.tenant("tenant1")).Update(request, compression=compression))
    assert error.code() is CODE.UNIMPLEMENTED


async def test_a_burst_of_one_tenant_leaves_another_responsive(door: Door, infra: Infra) -> None:
    """4,000 events of tenant1 wait; what tenant2 asks meanwhile is answered long before they are done."""
    loud = Sender(door.tenant("tenant1"))
    events, workloads = 4_000, 300

    async def burst() -> None:
        for number in range(events):
            await loud.update(f"w{number % workloads}", nodeName=f"host-{number}")
        await loud.close()

    bursting = asyncio.create_task(burst())
    quiet = door.tenant("tenant2")
    await eventually(lambda: len(door.seen.events) >= 500)
    sender = Sender(quiet)
    for number in range(5):
        await sender.update(f"q{number}")
        await rules(quiet).Update(pb.UpdateWorkloadRuleRequest(rule=rule(f"r{number}")))
    await sender.close()
    assert not bursting.done()
    assert await infra.names(WORKLOADS, "tenant-tenant2") == {workload(f"q{n}") for n in range(5)}
    await bursting
    page = await infra.client.list_page(WORKLOADS, namespace="tenant-tenant1")
    last = {
        workload(
            f"w{n}"
        ): f"host-{events - workloads + n - events % workloads + (workloads if n < events % workloads else 0)}"
        for n in range(workloads)
    }
    assert {item["metadata"]["name"]: item["spec"]["state"]["nodeName"] for item in page.items} == last


async def test_a_slow_reader_gets_the_latest_states(door: Door, infra: Infra) -> None:
    """However often a Pod changes while nobody reads, what is kept is one name."""
    channel = door.tenant("tenant1", **{"grpc.http2.lookahead_bytes": 1024, "grpc.http2.bdp_probe": 0})
    padding = {"padding": "x" * 60_000}
    await infra.client.create(
        PODS, {**POD, "metadata": {"name": "c", "labels": {COMPANION: "tenant"}}}, namespace="tenant-tenant1"
    )
    watch = resources(channel).Watch(resource_pb.WatchRequest())
    assert (await watch.read()) is not None
    for number in range(300):
        metadata = {"annotations": {**padding, "n": str(number)}}
        await infra.client.patch(PODS, "c", {"metadata": metadata}, patch_type="merge", namespace="tenant-tenant1")
    seen = []
    while not seen or '"n":"299"' not in seen[-1]:
        answer = await watch.read()
        if answer.HasField("pod"):
            seen.append(answer.pod.manifest.decode())
    assert len(seen) < 200
    watch.cancel()


async def test_a_reader_that_does_not_read_is_ended_as_well(door: Door, infra: Infra) -> None:
    """A removed tenant's stream ends although a message is stuck in it."""
    channel = door.tenant("tenant1", **{"grpc.http2.lookahead_bytes": 1024, "grpc.http2.bdp_probe": 0})
    for number in range(40):
        metadata = {"name": f"c{number}", "labels": {COMPANION: "tenant"}, "annotations": {"p": "x" * 60_000}}
        await infra.client.create(PODS, {**POD, "metadata": metadata}, namespace="tenant-tenant1")
    await eventually(lambda: len(door.sources.companions) == 40)
    watch = resources(channel).Watch(resource_pb.WatchRequest())
    await eventually(lambda: door.seen.open.get("tenant1") == 1)
    await infra.client.delete(TENANTS, "tenant1")
    await eventually(lambda: door.seen.open["tenant1"] == 0)
    assert (await fails(watch)).code() is CODE.PERMISSION_DENIED


async def test_a_stream_that_is_ended_as_it_begins_has_a_status(
    infra: Infra, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC takes no status while the headers are under way, and the caller would wait without end."""

    begin = UniverseResourceService.Watch

    def ended(*call: Any) -> Any:
        door.sources.tenants.remove("", "tenant1")
        return begin(*call)

    monkeypatch.setattr(UniverseResourceService, "Watch", ended)
    await infra.add_tenant("tenant1")
    door = await start()
    watch = resources(door.tenant("tenant1")).Watch(resource_pb.WatchRequest())
    assert (await fails(watch)).code() is CODE.PERMISSION_DENIED
