"""An infra cluster that is restored from an earlier copy: what tenants have been told is told anew."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from app.tenancy.gateway import workload_service
from app.tenancy.gateway.workload_writer import WorkloadWriter
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as rule_pb
from app.workloads.model import WORKLOADS
from tests.support.gateway_calls import Sender, resources, rules, workload
from tests.support.tenancy import Door, Infra
from tests.support.waiting import PATIENCE, eventually


async def restore(infra: Infra, snapshot: object) -> None:
    await infra.cluster.stop()
    infra.cluster.storage.restore(snapshot)
    infra.cluster.storage.reopen()
    await infra.cluster.start()


@pytest.mark.parametrize("service", ["rules", "resources"])
async def test_watches_end_after_a_doubt(door: Door, infra: Infra, service: str) -> None:
    """An agent may have been told of a write that is lost, and no change says so."""
    channel = door.tenant("tenant1")
    if service == "rules":
        call = rules(channel).Watch(rule_pb.WatchWorkloadRulesRequest())
    else:
        call = resources(channel).Watch(resource_pb.WatchRequest())
    assert (await call.read()).WhichOneof("event") == "synced"
    await restore(infra, infra.cluster.storage.snapshot())
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        async with asyncio.timeout(PATIENCE):
            await call.read()
    assert failure.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_stream_whose_workloads_were_lost_ends(door: Door, infra: Infra) -> None:
    sender = Sender(door.tenant("tenant1"))
    snapshot = infra.cluster.storage.snapshot()
    await sender.update("a")
    await eventually(lambda: len(door.sources.workloads) == 1)
    await restore(infra, snapshot)
    async with asyncio.timeout(PATIENCE):
        error = await sender.failure()
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    again = Sender(door.tenant("tenant1"))
    await again.update("a")
    await again.close()
    assert await infra.names(WORKLOADS, "tenant-tenant1") == {workload("a")}


async def test_a_stream_whose_workload_was_deleted_by_others_ends(door: Door, infra: Infra) -> None:
    """A client that only sends changes would never send it again."""
    sender = Sender(door.tenant("tenant1"))
    await sender.update("a")
    await eventually(lambda: len(door.sources.workloads) == 1)
    await infra.client.delete(WORKLOADS, workload("a"), namespace="tenant-tenant1")
    async with asyncio.timeout(PATIENCE):
        error = await sender.failure()
    assert error.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_stream_goes_on_after_deletions_of_its_own(door: Door, infra: Infra) -> None:
    sender = Sender(door.tenant("tenant1"))
    for _ in range(5):
        await sender.update("a")
        await eventually(lambda: len(door.sources.workloads) == 1)
        await sender.delete("a")
        await eventually(lambda: not door.sources.workloads)
    await sender.update("a")
    await sender.close()
    assert await infra.names(WORKLOADS, "tenant-tenant1") == {workload("a")}


async def test_deletions_of_its_own_leave_nothing_behind(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream stays open for days."""
    writers: list[WorkloadWriter] = []

    class Kept(WorkloadWriter):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            writers.append(self)

    monkeypatch.setattr(workload_service, "WorkloadWriter", Kept)
    sender = Sender(door.tenant("tenant1"))
    for name in ("a", "b", "c"):
        await sender.update(name)
    await eventually(lambda: len(door.sources.workloads) == 3)
    for name in ("a", "b", "c"):
        await sender.delete(name)
    await eventually(lambda: not door.sources.workloads and not writers[0]._removing)
    await eventually(lambda: not len(door.sources.ledger))
    await sender.close()
