"""What a tenant has the API server store: bytes written in time, and bytes of its Pods at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from app.kube.resources import CONFIG_MAPS, PODS
from app.tenancy.gateway.settings import Limits
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.workloads.model import WORKLOADS
from tests.support.gateway_calls import (
    POD,
    Sender,
    data,
    fails,
    manifest,
    pod,
    put,
    resources,
    rule,
    rules,
    type_of,
    workload,
)
from tests.support.tenancy import Door, Infra, Start
from tests.support.waiting import eventually

CODE = grpc.StatusCode
NS = "tenant-tenant1"


TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD["spec"]}


def daemon_set(**metadata: Any) -> dict[str, Any]:
    made = manifest("DaemonSet", "d", spec={"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE})
    return {**made, "metadata": {**made["metadata"], **metadata}}


def config(size: int) -> dict[str, Any]:
    return manifest("ConfigMap", "c", data={"a": "x" * size})


async def test_what_is_stored_in_time_is_bounded_for_each_tenant(infra: Infra, start: Start) -> None:
    """What changes nothing costs nothing; another tenant has a bound of its own."""
    for name in ("tenant1", "tenant2"):
        await infra.add_tenant(name)
    door = await start(limits=Limits(stored_bytes_per_second=1.0, stored_bytes_burst=30_000))
    await put(door.tenant("tenant1"), config(20_000))
    for _ in range(3):
        await put(door.tenant("tenant1"), config(20_000))
    error = await fails(put(door.tenant("tenant1"), config(20_001)))
    assert error.code() is CODE.RESOURCE_EXHAUSTED
    assert (error.details() or "").startswith(
        "more than 0.000976562 KiB a second are to be stored for this tenant; try"
    )
    assert int(dict(error.trailing_metadata() or ())["grpc-retry-pushback-ms"]) > 1000
    stub = rules(door.tenant("tenant1"))
    large = rule("large", data=data({**POD, "metadata": {"annotations": {"a": "x" * 12_000}}}))
    for method, request in ((stub.Create, pb.CreateWorkloadRuleRequest), (stub.Update, pb.UpdateWorkloadRuleRequest)):
        assert (await fails(method(request(rule=large)))).code() is CODE.RESOURCE_EXHAUSTED
    await stub.Create(pb.CreateWorkloadRuleRequest(rule=rule("small")))
    large.id = "small"
    assert (await fails(stub.Update(pb.UpdateWorkloadRuleRequest(rule=large)))).code() is CODE.RESOURCE_EXHAUSTED
    await put(door.tenant("tenant2"), config(20_000))
    found = await infra.client.get(CONFIG_MAPS, "c", namespace=NS)
    assert len(found["data"]["a"]) == 20_000


async def test_workloads_wait_and_none_is_lost(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(stored_bytes_per_second=200_000, stored_bytes_burst=25_000))
    sender, count = Sender(door.tenant("tenant1")), 12
    for number in range(count):
        await sender.update(f"w{number}", extra={"labels": {}, "annotations": {"large": "x" * 20_000}})
    await sender.close()
    assert await infra.names(WORKLOADS, NS) == {workload(f"w{number}") for number in range(count)}


async def test_a_workload_that_is_stored_already_costs_nothing(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(stored_bytes_per_second=1e-3, stored_bytes_burst=25_000))
    large = {"labels": {}, "annotations": {"large": "x" * 20_000}}
    for _ in range(3):
        sender = Sender(door.tenant("tenant1"))
        await sender.update("w", extra=large)
        await sender.close()
        await eventually(lambda: len(door.sources.workloads) == 1)
    waiting = Sender(door.tenant("tenant1"))
    await waiting.update("w", extra={**large, "labels": {"a": "b"}})
    closing = asyncio.create_task(waiting.close())
    await eventually(lambda: len(door.seen.events) == 4)
    await rules(door.tenant("tenant1")).List(pb.ListWorkloadRulesRequest())
    assert not closing.done()
    waiting.call.cancel()
    await asyncio.gather(closing, return_exceptions=True)


def large(name: str) -> dict[str, Any]:
    return pod(name, annotations={"large": "x" * 20_000})


async def filled(infra: Infra, start: Start, limits: Limits) -> tuple[Door, grpc.aio.AioRpcError]:
    """A gateway with room for two large Pods of tenant1, which are there, and how it refuses a third."""
    await infra.add_tenant("tenant1")
    door = await start(limits=limits)
    for name in ("a", "b"):
        await put(door.tenant("tenant1"), large(name), method="Create")
    await eventually(lambda: len(door.sources.pods) == 2)
    error = await fails(put(door.tenant("tenant1"), large("c"), method="Create"))
    assert error.code() is CODE.RESOURCE_EXHAUSTED
    return door, error


async def bind(infra: Infra, name: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": "dpu"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await infra.client.post(f"/api/v1/namespaces/{NS}/pods/{name}/binding", binding)


async def test_bytes_of_pods_are_bounded_together(infra: Infra, start: Start) -> None:
    """Those that exist may be written again, and one that goes makes room."""
    door, error = await filled(infra, start, Limits(pods_bytes=50_000))
    channel = door.tenant("tenant1")
    assert "exceeded quota: 20" in (error.details() or "")
    assert (error.details() or "").endswith("at most 50000 together")
    await put(channel, pod("a", annotations={"large": "y" * 21_000}))
    await put(channel, pod("small"), method="Create")
    await resources(channel).Delete(resource_pb.DeleteRequest(type=type_of("Pod"), id=resource_pb.ResourceId(name="b")))
    await eventually(lambda: door.sources.pods.get(NS, "b") is None)
    await put(channel, large("c"), method="Create")
    assert await infra.names(PODS, NS) == {"a", "c", "small"}


async def test_bytes_of_pods_without_a_node_are_bounded_together(infra: Infra, start: Start) -> None:
    door, error = await filled(infra, start, Limits(pending_pods_bytes=50_000))
    assert "beside Pods without a node of 4" in (error.details() or "")
    await bind(infra, "a")
    await eventually(lambda: sum(view.pending for view in door.sources.pods.values()) < 30_000)
    await put(door.tenant("tenant1"), large("c"), method="Create")
    assert await infra.names(PODS, NS) == {"a", "b", "c"}


def weight(door: Door) -> int:
    """Of the Pods of tenant1 without a node."""
    return sum(view.weight for view in door.sources.pods.values() if view.namespace == NS)


async def test_few_pods_of_a_tenant_have_no_node(infra: Infra, start: Start) -> None:
    """Pods of other tenants wait behind them for the scheduler."""
    door, error = await filled(infra, start, Limits(pending_pods=2))
    assert (error.details() or "").startswith("exceeded quota: 2 Pods of this tenant have no node: at most 2, ")
    channel = door.tenant("tenant1")
    await put(channel, pod("a", annotations={"changed": "yes"}))
    assert (await fails(put(channel, daemon_set(), method="Create"))).code() is CODE.RESOURCE_EXHAUSTED
    await infra.add_tenant("tenant2")
    await put(door.tenant("tenant2"), pod("a"), method="Create")
    await bind(infra, "a")
    await eventually(lambda: weight(door) == 1)
    await put(channel, daemon_set(), method="Create")
    await put(channel, pod("c"), method="Create")
    await eventually(lambda: weight(door) == 2)
    await put(channel, daemon_set(annotations={"changed": "yes"}))
    assert (await fails(put(channel, pod("e"), method="Create"))).code() is CODE.RESOURCE_EXHAUSTED


def test_all_workloads_of_a_tenant_are_stored_at_once() -> None:
    assert Limits().stored_bytes_burst >= Limits().workloads_bytes
