"""How many workloads of a tenant are taken, and what is remembered of them."""

from __future__ import annotations

from typing import Any

import grpc

from app.tenancy.gateway.settings import Limits
from app.tenancy.messages import update_of_spec
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.workloads.model import WORKLOADS
from tests.support.gateway_calls import Sender, fails, rule, rules, spec, workload
from tests.support.tenancy import Infra, Start
from tests.support.waiting import eventually


async def specs(infra: Infra) -> dict[str, Any]:
    page = await infra.client.list_page(WORKLOADS, namespace="tenant-tenant1")
    return {item["metadata"]["name"]: item["spec"] for item in page.items}


async def test_what_is_beyond_the_limit_is_dropped_until_there_is_room(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(workloads_per_tenant=2))
    sender = Sender(door.tenant("tenant1"))
    for name in ("a", "b", "c"):
        await sender.update(name)
    await sender.update("a", nodeName="host-b")
    await sender.delete("b")
    await sender.update("d")
    await sender.close()
    stored = await specs(infra)
    assert set(stored) == {workload("a"), workload("d")}
    assert stored[workload("a")]["state"]["nodeName"] == "host-b"
    assert door.seen.dropped == [("tenant1", "limit")]


LARGE: dict[str, Any] = {"extra": {"labels": {}, "annotations": {"large": "x" * 900_000}}}


def bounded(count: int) -> Limits:
    """Room for two large workloads and some small ones, whatever their number."""
    return Limits(workloads_per_tenant=count, workload_mean_bytes=2_000_000 // count)


async def test_bytes_beyond_the_limit_are_dropped_until_there_is_room(infra: Infra, start: Start) -> None:
    """The last good state stays, and what becomes smaller is always taken."""
    await infra.add_tenant("tenant1")
    door = await start(limits=bounded(100))
    sender = Sender(door.tenant("tenant1"))
    for name in ("a", "b"):
        await sender.update(name, **LARGE)
    await sender.update("c")
    await sender.update("c", nodeName="host-b", **LARGE)
    await sender.update("d", **LARGE)
    await sender.update("e")
    await sender.update("a", nodeName="host-b")
    await sender.delete("b")
    await sender.update("f", **LARGE)
    await sender.close()
    stored = await specs(infra)
    assert set(stored) == {workload(name) for name in "acef"}
    assert stored[workload("a")]["state"]["nodeName"] == "host-b"
    assert stored[workload("c")]["state"]["nodeName"] == "host-a"
    assert door.seen.dropped == [("tenant1", "limit")] * 2


async def test_streams_that_never_sync_do_not_pile_up_bytes(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=bounded(100))
    for number, stored in enumerate((2, 4, 4)):
        sender = Sender(door.tenant("tenant1"))
        for name in ("a", "b"):
            await sender.update(f"{name}{number}", **LARGE)
        await sender.close()
        names = await infra.names(WORKLOADS, "tenant-tenant1")
        assert len(names) == stored
        known = door.sources.workloads
        await eventually(lambda: {found.name for found in known.values()} == names)  # noqa: B023 - awaited in this round
    assert door.seen.dropped == [("tenant1", "limit")] * 2


async def test_refused_workloads_are_not_remembered(infra: Infra, start: Start) -> None:
    """Ever new ids of what is never stored take no memory, and no room from what is good."""
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(workloads_per_tenant=2))
    sender = Sender(door.tenant("tenant1"))
    for number in range(5):
        content, rejected = (update_of_spec(spec(f"{kind}{number}")).update for kind in "cr")
        content.metadata.resource_type = "v2/Vm"
        rejected.metadata.resource_name = "x" * 300  # the schema of Workload allows 253
        await sender.raw(content)
        await sender.raw(rejected)
        await eventually(lambda count=number: len(door.seen.dropped) == 2 * count + 2)
    await sender.update("a")
    await sender.update("b")
    await sender.close()
    assert set(await specs(infra)) == {workload("a"), workload("b")}
    assert {reason for _, reason in door.seen.dropped} == {"content", "rejected"}


async def test_streams_that_never_sync_do_not_pile_up_workloads(infra: Infra, start: Start) -> None:
    """A stream may replace all that another has left behind; a third cannot add to both."""
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(workloads_per_tenant=2))
    for number, stored in enumerate((2, 4, 4)):
        sender = Sender(door.tenant("tenant1"))
        for name in ("a", "b"):
            await sender.update(f"{name}{number}")
        await sender.close()
        await eventually(lambda wanted=stored: len(door.sources.workloads) == wanted)
    assert door.seen.dropped == [("tenant1", "limit")] * 2
    last = Sender(door.tenant("tenant1"))
    await last.update("a0")
    await last.synced()
    await last.close()
    assert set(await specs(infra)) == {workload("a0")}


async def test_more_rules_leave_room_for_fewer_workloads(infra: Infra, start: Start) -> None:
    """Each pair costs the controller. What is stored already stays, whoever made the rules."""
    await infra.add_tenant("tenant1")
    limits = Limits(workloads_per_tenant=4)  # 32 pairs
    door = await start(limits=limits)
    sender = Sender(door.tenant("tenant1"))
    for name in ("a", "b", "c"):
        await sender.update(name)
    await eventually(lambda: len(door.sources.workloads) == 3)
    stub = rules(door.tenant("tenant1"))
    for number in range(10):
        await stub.Create(pb.CreateWorkloadRuleRequest(rule=rule(f"r{number}")))
    error = await fails(stub.Create(pb.CreateWorkloadRuleRequest(rule=rule("more"))))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert error.details() == "there are 10 rules and 3 workloads: rules times workloads are 32 at most"
    await eventually(lambda: len(door.sources.rules) == 10)
    await sender.update("d")
    await sender.update("a", nodeName="host-b")
    await sender.close()
    assert set(await specs(infra)) == {workload(name) for name in "abc"}
    assert door.seen.dropped == [("tenant1", "limit")]
