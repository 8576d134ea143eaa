"""Several replicas of the gateway serve one tenant's agent: what a newer stream writes, an older one leaves alone."""

from __future__ import annotations

from typing import Any

import grpc
import pytest_asyncio

from app.tenancy.gateway.caches import STREAM, StreamIds, stream_of
from app.workloads.model import WORKLOADS
from tests.support.gateway_calls import Sender, spec, workload
from tests.support.tenancy import Door, Infra, Start
from tests.support.waiting import eventually

NS = "tenant-tenant1"
AHEAD = "099000000000000-00000000"
"""Of a replica whose clock is far ahead."""


async def stored(infra: Infra, workload_id: str) -> dict[str, Any]:
    return await infra.client.get(WORKLOADS, workload(workload_id), namespace=NS)


async def make(infra: Infra, workload_id: str, **annotations: str) -> dict[str, Any]:
    """A Workload by another hand than these gateways'."""
    metadata: dict[str, Any] = {"name": workload(workload_id)}
    metadata |= {"annotations": annotations} if annotations else {}
    body = WORKLOADS.body(metadata, spec=spec(workload_id))
    return await infra.client.create(WORKLOADS, body, namespace=NS)


async def there(infra: Infra, *ids: str) -> bool:
    return await infra.names(WORKLOADS, NS) == {workload(one) for one in ids}


def shown(door: Door, workload_id: str) -> bool:
    """Whether the cache of this replica has it."""
    return door.sources.workloads.get(NS, workload(workload_id)) is not None


def deleted(door: Door) -> int:
    return sum(verb == "delete" for _, verb, _ in door.seen.writes)


@pytest_asyncio.fixture
async def replicas(infra: Infra, start: Start) -> tuple[Door, Door]:
    await infra.add_tenant("tenant1")
    return await start(), await start()


async def test_a_stream_left_open_sweeps_nothing_of_the_newer_one(replicas: tuple[Door, Door], infra: Infra) -> None:
    """The agent has gone to another replica, and the first one has not noticed: its stream is open and silent."""
    first, second = replicas
    old = Sender(first.tenant("tenant1"))
    await old.update("a")
    await old.synced()
    await eventually(lambda: there(infra, "a"))
    await eventually(lambda: shown(second, "a"))
    new = Sender(second.tenant("tenant1"))
    await new.update("a")
    await new.update("b")
    await new.synced()
    await eventually(lambda: ("tenant1", "create", "done") in second.seen.writes)
    await eventually(lambda: deleted(first) or old.call.done())
    assert deleted(first) == 0
    # The older stream ends for what it saw.
    assert (await old.failure()).code() is grpc.StatusCode.ABORTED
    await new.close()
    assert (deleted(first), deleted(second), await there(infra, "a", "b")) == (0, 0, True)


async def test_the_newer_stream_sweeps_what_the_older_one_wrote(replicas: tuple[Door, Door], infra: Infra) -> None:
    """Also what comes after its "synced"."""
    first, second = replicas
    former = Sender(first.tenant("tenant1"))
    await former.update("a")
    await former.close()
    # It has not sent "a" itself: a stream ends when something else deletes what it has sent.
    old = Sender(first.tenant("tenant1"))
    await old.delete("b")
    await old.call.initial_metadata()
    await eventually(lambda: shown(second, "a"))
    new = Sender(second.tenant("tenant1"))
    await new.synced()
    await eventually(lambda: there(infra))
    await old.update("late")
    await eventually(lambda: deleted(second) == 2)
    await eventually(lambda: there(infra))
    old.call.cancel()
    await new.close()


async def test_a_replica_whose_clock_is_behind_sweeps_what_others_left(door: Door, infra: Infra) -> None:
    """A new stream is later than all that its replica knows of, whatever the clocks say."""
    await make(infra, "left", **{STREAM: AHEAD})
    await eventually(lambda: shown(door, "left"))
    sender = Sender(door.tenant("tenant1"))
    await sender.update("a")
    await sender.synced()
    await eventually(lambda: there(infra, "a"))
    await sender.close()
    assert stream_of(await stored(infra, "a")) > AHEAD


async def test_a_stream_that_meets_a_later_id_ends_and_the_next_one_puts_it_right(door: Door, infra: Infra) -> None:
    """An older stream at a replica whose clock is ahead wrote late: the agent begins anew, and nothing is left over."""
    sender = Sender(door.tenant("tenant1"))
    await sender.update("a")
    await sender.synced()
    await eventually(lambda: there(infra, "a"))
    await make(infra, "late", **{STREAM: AHEAD})
    assert (await sender.failure()).code() is grpc.StatusCode.ABORTED
    assert await there(infra, "a", "late")
    again = Sender(door.tenant("tenant1"))
    await again.update("a")
    await again.synced()
    await eventually(lambda: there(infra, "a"))
    await again.close()


async def test_an_unchanged_workload_keeps_the_id_of_its_stream(door: Door, infra: Infra) -> None:
    """A restart of a replica, a new stream: nothing is written for that."""
    first = Sender(door.tenant("tenant1"))
    await first.update("a")
    await first.close()
    await eventually(lambda: shown(door, "a"))
    before = await stored(infra, "a")
    second = Sender(door.tenant("tenant1"))
    await second.update("a")
    await second.synced()
    await second.close()
    assert await stored(infra, "a") == before
    third = Sender(door.tenant("tenant1"))
    await third.update("a", ready=False)
    await third.close()
    after = await stored(infra, "a")
    assert (after["spec"], stream_of(after) > stream_of(before)) == (spec("a", ready=False), True)


async def test_a_workload_made_by_hand_is_taken_over_with_what_else_is_on_it(door: Door, infra: Infra) -> None:
    """Its other annotations stay; it need not have any."""
    await make(infra, "a")
    await make(infra, "b", note="mine")
    await make(infra, "c", **{STREAM: "nonsense"})
    await eventually(lambda: shown(door, "c"))
    sender = Sender(door.tenant("tenant1"))
    for workload_id in ("a", "b", "c"):
        await sender.update(workload_id, ready=False)
    await sender.close()
    for workload_id in ("a", "b", "c"):
        found = await stored(infra, workload_id)
        assert found["spec"] == spec(workload_id, ready=False)
        assert stream_of(found)
    assert (await stored(infra, "b"))["metadata"]["annotations"]["note"] == "mine"


def test_ids_are_later_than_all_before_and_all_that_is_known() -> None:
    """Text of one length: it sorts as it was given out, though the clock stands still or goes back."""
    now = [1_700_000_000.5]
    ids = StreamIds(clock=lambda: now[0])
    made = [ids.next([])]
    assert made[0].startswith("001700000000500-")
    made.append(ids.next([]))
    now[0] -= 100
    made += [ids.next(["", made[-1]]), ids.next([AHEAD]), ids.next([]), ids.next(["099999999999999-ffffffff"])]
    assert sorted(made) == made
    assert {len(one) for one in made} == {24}


def test_an_id_that_cannot_be_read_is_none() -> None:
    def read(annotations: Any) -> str:
        return stream_of({"metadata": {"annotations": annotations}})

    assert read({STREAM: AHEAD}) == AHEAD
    for value in ("", "zzz", "9" * 15 + "-00000000", "1", AHEAD + "0", None, 5):
        assert not read({STREAM: value})
    assert not read(None)
    assert not read({})
