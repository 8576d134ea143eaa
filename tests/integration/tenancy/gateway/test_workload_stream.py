"""The stream of workloads becomes Workload objects of its tenant, level by level."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import grpc
import pytest

from app.errors import ApiError
from app.kube.resources import NAMESPACES
from app.tenancy.gateway import workload_service
from app.tenancy.gateway.reading import Context, Readers, Receiving
from app.tenancy.gateway.settings import Limits
from app.tenancy.messages import LARGEST_MESSAGE, update_of_spec
from app.tenancy.proto.universe.workload.v1 import workload_pb2, workload_rule_pb2
from app.workloads.model import WORKLOADS
from tests.support.gateway_calls import Sender, fails, rule, rules, spec, uid, workload
from tests.support.tenancy import Door, Infra, Start
from tests.support.waiting import eventually

NS = "tenant-tenant1"


async def specs(infra: Infra, namespace: str = NS) -> dict[str, Any]:
    page = await infra.client.list_page(WORKLOADS, namespace=namespace)
    return {item["metadata"]["name"]: item["spec"] for item in page.items}


async def test_updates_and_deletes_become_objects(door: Door, infra: Infra) -> None:
    sender = Sender(door.tenant("tenant1"))
    await sender.update("a", extra={"labels": {"foo": "bar"}, "annotations": {"n": "ü"}})
    await sender.update("b")
    await eventually(lambda: done(infra, {workload("a"), workload("b")}))
    await sender.delete("b")
    await sender.close()
    assert await specs(infra) == {workload("a"): spec("a", extra={"labels": {"foo": "bar"}, "annotations": {"n": "ü"}})}
    assert await specs(infra, "tenant-tenant2") == {}
    assert door.seen.events == [("tenant1", "update"), ("tenant1", "update"), ("tenant1", "delete")]


async def done(infra: Infra, names: set[str]) -> bool:
    return await infra.names(WORKLOADS, NS) == names


async def test_a_label_that_is_gone_is_gone_from_the_object(door: Door, infra: Infra) -> None:
    """The whole spec is replaced, not merged."""
    sender = Sender(door.tenant("tenant1"))
    await sender.update("a", extra={"labels": {"foo": "bar"}, "annotations": {}})
    await eventually(lambda: done(infra, {workload("a")}))
    await sender.update("a")
    await sender.close()
    assert (await specs(infra))[workload("a")] == spec("a")


async def test_an_equal_state_is_not_written(door: Door, infra: Infra) -> None:
    channel = door.tenant("tenant1")
    first = Sender(channel)
    await first.update("a")
    await first.close()
    before = await infra.client.get(WORKLOADS, workload("a"), namespace=NS)
    await eventually(lambda: door.sources.workloads.get(NS, workload("a")))
    second = Sender(channel)
    await second.update("a")
    await second.close()
    assert await infra.client.get(WORKLOADS, workload("a"), namespace=NS) == before
    assert door.seen.writes == [("tenant1", "create", "done"), ("tenant1", "unchanged", "done")]


async def test_back_and_forth_ends_with_the_last_state(door: Door, infra: Infra) -> None:
    """A cache that lags behind our own writes must not pass for the current state."""
    sender = Sender(door.tenant("tenant1"))
    for number in range(60):
        await sender.update("a", ready=number % 2 == 0)
        await asyncio.sleep(0.002)
    await sender.update("a", ready=True, nodeName="last")
    await sender.update("a", ready=False)
    await sender.close()
    assert (await specs(infra))[workload("a")]["state"]["ready"] is False


async def test_synced_removes_what_was_not_sent(door: Door, infra: Infra) -> None:
    channel = door.tenant("tenant1")
    first = Sender(channel)
    for name in ("a", "b", "c"):
        await first.update(name)
    await first.close()
    second = Sender(channel)
    await second.update("b")
    await second.synced()
    await eventually(lambda: done(infra, {workload("b")}))
    await second.close()
    assert set(await specs(infra)) == {workload("b")}


async def test_synced_leaves_the_other_tenants_alone(door: Door, infra: Infra) -> None:
    other = Sender(door.tenant("tenant2"))
    await other.update("a")
    await other.close()
    sender = Sender(door.tenant("tenant1"))
    await sender.synced()
    await sender.close()
    assert set(await specs(infra, "tenant-tenant2")) == {workload("a")}


async def test_what_comes_into_the_cache_after_synced_is_swept(door: Door, infra: Infra) -> None:
    """An object of an earlier stream may be created after the sync of the next one."""
    sender = Sender(door.tenant("tenant1"))
    await sender.update("kept")
    await sender.synced()
    await eventually(lambda: done(infra, {workload("kept")}))
    late = WORKLOADS.body({"name": workload("late")})
    await infra.client.create(WORKLOADS, late | {"spec": spec("late")}, namespace=NS)
    await eventually(lambda: door.seen.writes.count(("tenant1", "delete", "done")) == 1)
    assert set(await specs(infra)) == {workload("kept")}
    sender.call.cancel()


@pytest.mark.parametrize(
    "workload_id",
    ["", "a", "../x", "y-" + uid("y"), uid("a").upper(), uid("a").replace("-", ""), uid("a") + "\n", "ä" * 10_000],
)
async def test_bad_ids_are_dropped_and_the_stream_goes_on(
    door: Door, infra: Infra, workload_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With any label for an id `tenant1` could take the names of companions of a tenant `tenant1-y`."""
    sender = Sender(door.tenant("tenant1"))
    bad = update_of_spec(spec("a")).update
    bad.metadata.id = workload_id
    await sender.raw(bad)
    await sender.raw_delete(workload_id)
    await sender.update("good")
    await sender.close()
    assert set(await specs(infra)) == {workload("good")}
    assert door.seen.dropped == [("tenant1", "id")] * 2
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "event dropped" in line]
    assert "use a UUID" in line
    assert len(line) < 500


async def test_a_workload_that_is_too_large_keeps_its_last_good_state(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(workload_bytes=2000))
    sender = Sender(door.tenant("tenant1"))
    await sender.update("a")
    await eventually(lambda: done(infra, {workload("a")}))
    await sender.update("a", extra={"labels": {}, "annotations": {"big": "x" * 2000}})
    await sender.synced()
    await sender.close()
    assert await specs(infra) == {workload("a"): spec("a")}
    assert door.seen.dropped == [("tenant1", "size")]


async def test_a_stream_begins_with_the_largest_message(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(message_bytes=70_000))
    sender = Sender(door.tenant("tenant1"))
    assert dict(await sender.call.initial_metadata())[LARGEST_MESSAGE] == "70000"
    await sender.close()


async def test_large_states_keep_their_place(door: Door, infra: Infra) -> None:
    """They are read beside the event loop, and what comes after them is still what counts."""
    sender = Sender(door.tenant("tenant1"))
    large = {"labels": {}, "annotations": {f"k{n}": "x" * 50 for n in range(10_000)}}
    for name in ("a", "b", "c"):
        await sender.update(name, extra=large)
    await sender.update("a")
    await sender.delete("b")
    await sender.close()
    assert await specs(infra) == {workload("a"): spec("a"), workload("c"): spec("c", extra=large)}
    assert not door.seen.dropped


async def test_large_states_are_read_beside_the_event_loop(
    door: Door, infra: Infra, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is parsed, converted and hashed there would hold up every other tenant."""
    threads: dict[str, set[bool]] = {"convert": set(), "hash": set()}

    def noted(step: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            threads[step].add(threading.current_thread() is threading.main_thread())
            return function(*arguments)

        return call

    monkeypatch.setattr(workload_service, "spec_of_workload", noted("convert", workload_service.spec_of_workload))
    monkeypatch.setattr(workload_service, "digest_of", noted("hash", workload_service.digest_of))
    sender = Sender(door.tenant("tenant1"))
    await sender.update("a", extra={"labels": {}, "annotations": {"big": "x" * 50_000}})
    await eventually(lambda: done(infra, {workload("a")}))
    assert threads == {"convert": {False}, "hash": {False}}
    await sender.update("b")
    await sender.close()
    assert threads == {"convert": {False, True}, "hash": {False, True}}


@pytest.mark.parametrize("many", [False, True])
async def test_large_messages_are_parsed_beside_the_event_loop(*, many: bool) -> None:
    on_the_loop: dict[int, bool] = {}

    def parse(raw: bytes) -> int:
        on_the_loop[len(raw)] = threading.current_thread() is threading.main_thread()
        return len(raw)

    class Call:
        """What comes in of a call."""

        def __init__(self, *sizes: int) -> None:
            self._coming = [b"x" * size for size in sizes]

        async def read(self) -> Any:
            return self._coming.pop(0) if self._coming else grpc.aio.EOF

    sizes = [100_000, 100]
    receiving = Receiving(Limits(), Readers(Limits()))
    if many:
        found = [message async for message in receiving.each(parse, cast("Context", Call(*sizes)), "tenant1")]
    else:
        found = [await receiving.first(parse, cast("Context", Call(size)), "tenant1") for size in sizes]
    assert found == sizes
    assert on_the_loop == {100_000: False, 100: True}


async def test_unusable_content_is_dropped(door: Door, infra: Infra) -> None:
    sender = Sender(door.tenant("tenant1"))
    bad = update_of_spec(spec("a")).update
    bad.metadata.resource_type = "v2/Vm"
    await sender.raw(bad)
    numbers = update_of_spec(spec("b")).update
    numbers.state.extra["labels"] = {"n": 5}
    await sender.raw(numbers)
    await sender.call.write(workload_pb2.WorkloadStreamRequest())
    await sender.close()
    assert await specs(infra) == {}
    assert door.seen.dropped == [("tenant1", "content")] * 3


async def test_what_the_api_server_rejects_is_dropped(door: Door, infra: Infra) -> None:
    sender = Sender(door.tenant("tenant1"))
    bad = update_of_spec(spec("a")).update
    bad.metadata.resource_name = "x" * 300  # the schema of Workload allows 253
    await sender.raw(bad)
    await sender.update("b")
    await sender.close()
    assert set(await specs(infra)) == {workload("b")}
    assert door.seen.dropped == [("tenant1", "rejected")]


async def test_what_is_too_large_for_etcd_is_dropped(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    client = Failing(infra.client)
    door = await start(client=client)
    client.failing = True
    client.error = ApiError("POST /x: HTTP 500: etcdserver: request is too large", status=500)
    sender = Sender(door.tenant("tenant1"))
    await sender.update("a")
    await sender.close()
    assert client.tries == 1
    assert ("tenant1", "rejected") in door.seen.dropped


async def test_a_tenant_without_a_namespace_is_told(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1", namespace=False)
    door = await start()
    sender = Sender(door.tenant("tenant1"))
    await sender.update("a")
    error = await sender.failure()
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert NS in (error.details() or "")
    request = workload_rule_pb2.CreateWorkloadRuleRequest(rule=rule())
    created = await fails(rules(door.tenant("tenant1")).Create(request))
    assert created.code() is grpc.StatusCode.FAILED_PRECONDITION
    await infra.client.create(NAMESPACES, {"metadata": {"name": NS}})
    again = Sender(door.tenant("tenant1"))
    await again.update("a")
    await again.close()
    assert set(await specs(infra)) == {workload("a")}


async def test_a_newer_stream_takes_over(door: Door, infra: Infra) -> None:
    first = Sender(door.tenant("tenant1"))
    await first.update("a")
    await eventually(lambda: done(infra, {workload("a")}))
    second = Sender(door.tenant("tenant1"))
    await second.update("b")
    error = await first.failure()
    assert error.code() is grpc.StatusCode.ABORTED
    await second.close()
    assert set(await specs(infra)) == {workload("a"), workload("b")}


async def test_a_newer_stream_takes_over_before_it_writes(door: Door) -> None:
    """No Workload bears its mark yet."""
    first = Sender(door.tenant("tenant1"))
    await first.delete("none")
    await eventually(lambda: len(door.seen.events) == 1)
    second = Sender(door.tenant("tenant1"))
    await second.delete("none")
    assert (await first.failure()).code() is grpc.StatusCode.ABORTED
    await second.close()


class Failing:
    """A client whose writes of Workloads fail while `failing` is set; the rest is the real one."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.failing = False
        self.only: set[str] = set()
        """Names of those that fail; empty: all."""
        self.error = ApiError("POST: HTTP 503: etcd has no leader", status=503)
        self.tries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def create(self, resource: Any, body: Any, *, namespace: str | None = None) -> Any:
        if resource == WORKLOADS:
            self.tries += 1
            if self.failing and (not self.only or body["metadata"]["name"] in self.only):
                raise self.error
        return await self._client.create(resource, body, namespace=namespace)


async def test_failures_are_retried(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    client = Failing(infra.client)
    door = await start(client=client)
    client.failing = True
    sender = Sender(door.tenant("tenant1"))
    await sender.update("a")
    await eventually(lambda: client.tries >= 3)
    client.failing = False
    await sender.close()
    assert set(await specs(infra)) == {workload("a")}


FULL = ApiError("POST: HTTP 403: exceeded quota: berth-objects", status=403, reason="Forbidden")


async def test_equal_states_of_a_workload_that_is_refused_leave_it_its_pause(infra: Infra, start: Start) -> None:
    """An agent sends everything again in each of its rounds."""
    await infra.add_tenant("tenant1")
    client = Failing(infra.client)
    door = await start(client=client)
    client.failing, client.error = True, FULL
    sender = Sender(door.tenant("tenant1"))
    for number in range(300):
        await sender.update("a")
        await eventually(lambda number=number: len(door.seen.events) > number)
    assert client.tries < 100
    client.failing = False
    await sender.update("a", nodeName="host-1")
    await eventually(lambda: infra_has(infra, "host-1"))
    await sender.close()


async def infra_has(infra: Infra, node: str) -> bool:
    return (await specs(infra)).get(workload("a"), {}).get("state", {}).get("nodeName") == node


async def test_writes_that_are_refused_do_not_fill_the_log(infra: Infra, start: Start, capsys: Any) -> None:
    await infra.add_tenant("tenant1")
    client = Failing(infra.client)
    door = await start(client=client)
    client.failing, client.error = True, FULL
    sender = Sender(door.tenant("tenant1"))
    for number in range(100):
        await sender.update(f"{number:02d}")
    await eventually(lambda: client.tries >= 200)
    lines = [line for line in capsys.readouterr().out.splitlines() if "write again" in line]
    assert 1 <= len(lines) <= 20
    assert "exceeded quota: berth-objects" in lines[0]
    client.failing = False
    await sender.close()


async def test_only_the_latest_state_is_written(infra: Infra, start: Start) -> None:
    """While a workload cannot be written, what it was meanwhile is passed over."""
    await infra.add_tenant("tenant1")
    client = Failing(infra.client)
    door = await start(client=client)
    client.failing = True
    sender = Sender(door.tenant("tenant1"))
    for number in range(50):
        await sender.update("a", nodeName=f"host-{number}")
    await eventually(lambda: len(door.seen.events) == 50)
    client.failing = False
    await sender.close()
    assert [write for write in door.seen.writes if write[2] == "done"] == [("tenant1", "create", "done")]
    assert (await specs(infra))[workload("a")]["state"]["nodeName"] == "host-49"


async def test_failures_that_go_on_end_the_stream_and_drop_what_waits(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    client = Failing(infra.client)
    door = await start(client=client, limits=Limits(give_up=0.3))
    client.failing = True
    sender = Sender(door.tenant("tenant1"))
    await sender.update("a")
    error = await sender.failure()
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "etcd has no leader" in (error.details() or "")
    client.failing = False
    again = Sender(door.tenant("tenant1"))
    await again.update("b")
    await again.close()
    assert set(await specs(infra)) == {workload("b")}


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (409, "Conflict")])
async def test_workloads_that_are_refused_for_ever_leave_room_for_others(
    infra: Infra, start: Start, status: int, reason: str
) -> None:
    """A policy may refuse as many as may wait: those after them are read and written, deletions too."""
    await infra.add_tenant("tenant1")
    client = Failing(infra.client)
    client.error = ApiError(f"POST: HTTP {status}: no", status=status, reason=reason)
    client.only = {workload(f"bad{number}") for number in range(5)}
    door = await start(client=client, limits=Limits(pending_events=3))
    sender = Sender(door.tenant("tenant1"))
    await sender.update("before")
    await eventually(lambda: done(infra, {workload("before")}))
    client.failing = True
    for number in range(5):
        await sender.update(f"bad{number}")
    await sender.delete("before")
    await sender.update("good")
    await eventually(lambda: done(infra, {workload("good")}))
    assert ("tenant1", "rejected") in door.seen.dropped
    client.failing = False
    for number in range(5):  # as in the next round of the agent
        await sender.update(f"bad{number}")
    await sender.close()
    assert set(await specs(infra)) == {workload("good"), *client.only}


async def test_a_restart_of_the_api_server_loses_nothing(door: Door, infra: Infra) -> None:
    sender = Sender(door.tenant("tenant1"))
    await sender.update("before")
    await eventually(lambda: done(infra, {workload("before")}))
    restarting = asyncio.create_task(infra.restart())
    for number in range(10):
        await sender.update(f"w{number}")
    await restarting
    await sender.close()
    assert set(await specs(infra)) == {workload("before"), *(workload(f"w{n}") for n in range(10))}


async def test_a_full_intake_holds_the_sender_up(infra: Infra, start: Start) -> None:
    """Backpressure: what waits is bounded, however much is sent."""
    await infra.add_tenant("tenant1")
    client = Failing(infra.client)
    door = await start(client=client, limits=Limits(pending_events=10))
    client.failing = True
    sender = Sender(door.tenant("tenant1"))
    for number in range(50):
        await sender.update(f"w{number}")
    await eventually(lambda: len(door.seen.events) >= 10)
    await asyncio.sleep(0.3)
    assert len(door.seen.events) == 10
    client.failing = False
    await sender.close()
    assert len(await specs(infra)) == 50
