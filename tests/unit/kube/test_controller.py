"""Workers: when they start, what each verdict leads to, how they stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from app.errors import ApiError, Terminal, Transient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.queue import WorkQueue
from app.kube.store import Store
from app.metrics import HANDLING_FAULTS
from tests.support.counting import Counted
from tests.support.running import running
from tests.support.waiting import eventually

pytestmark = pytest.mark.simulated


def outcomes() -> Counted:
    return Counted("reconcile_total", "result", controller="c")


def scripted(*verdicts: Result | Exception) -> tuple[list[str], Callable[[str], Any]]:
    """A reconcile function that plays the verdicts in turn, and the keys it got."""
    seen: list[str] = []

    async def reconcile(key: str) -> Result:
        seen.append(key)
        verdict = verdicts[min(len(seen), len(verdicts)) - 1]
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    return seen, reconcile


async def test_starts_only_after_every_store_is_synced() -> None:
    stores = [Store(dict), Store(dict)]
    seen, reconcile = scripted(Done())
    controller = Controller("c", reconcile, stores=stores)
    controller.enqueue("early")
    async with running(controller.run()):
        stores[0].mark_synced()
        await asyncio.sleep(0.02)
        assert seen == []
        stores[1].mark_synced()
        await eventually(lambda: seen == ["early"])


async def test_first_run_and_resync_cover_every_key() -> None:
    seen, reconcile = scripted(Done())
    async with running(Controller("c", reconcile, keys=lambda: ["a", "b"], resync=0.05).run()):
        await eventually(lambda: seen.count("a") >= 3 and seen.count("b") >= 3)


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (Transient("busy"), "transient"),
        (Transient("busy", delay=0.01), "transient"),
        (ApiError("conflict", status=409), "transient"),
        (RuntimeError("bug"), "internal"),
        (RequeueAfter(0.01), "requeue"),
    ],
)
async def test_tried_again(verdict: Result | Exception, outcome: str) -> None:
    counted = outcomes()
    seen, reconcile = scripted(verdict, Done())
    controller = Controller("c", reconcile)
    async with running(controller.run()):
        controller.enqueue("a")
        await eventually(lambda: counted() == {outcome: 1, "done": 1})
    assert seen == ["a", "a"]


@pytest.mark.parametrize(("verdict", "outcome"), [(Done(), "done"), (Terminal("wrong"), "terminal")])
async def test_not_tried_again_until_added_anew(verdict: Result | Exception, outcome: str) -> None:
    counted = outcomes()
    seen, reconcile = scripted(verdict)
    controller = Controller("c", reconcile)
    async with running(controller.run()):
        controller.enqueue("a")
        await eventually(lambda: counted() == {outcome: 1})
        await asyncio.sleep(0.05)
        assert seen == ["a"]
        controller.enqueue("a")
        await eventually(lambda: counted() == {outcome: 2})


async def test_delay_of_the_fault_is_a_lower_bound() -> None:
    queue: WorkQueue[str] = WorkQueue(random=lambda: 0.0)
    seen, reconcile = scripted(Transient("busy", delay=30), Done())
    controller = Controller("c", reconcile, queue=queue)
    async with running(controller.run()):
        controller.enqueue("a")
        await asyncio.sleep(0.05)
        assert seen == ["a"]


async def test_one_key_that_hangs_does_not_stop_the_others() -> None:
    finished: list[str] = []

    async def reconcile(key: str) -> Result:
        if key == "hangs":
            await asyncio.sleep(60)
        finished.append(key)
        return Done()

    controller = Controller("c", reconcile, workers=2, drain=0.01)
    async with running(controller.run()):
        for key in ("hangs", "a", "b", "hangs"):
            controller.enqueue(key)
        await eventually(lambda: finished == ["a", "b"])


async def test_cancellation_lets_work_under_way_finish_and_begins_none() -> None:
    events: list[str] = []

    async def reconcile(key: str) -> Result:
        events.append(f"begin {key}")
        await asyncio.sleep(0.05)
        events.append(f"end {key}")
        return Done()

    controller = Controller("c", reconcile, workers=1)
    controller.enqueue("a")
    controller.enqueue("b")
    task = asyncio.create_task(controller.run())
    await eventually(lambda: events == ["begin a"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["begin a", "end a"]


async def test_work_that_outlasts_the_drain_is_cancelled_and_awaited() -> None:
    events: list[str] = []

    async def reconcile(key: str) -> Result:
        try:
            await asyncio.sleep(60)
        finally:
            events.append("cancelled")
            await asyncio.sleep(0.01)
            events.append("cleaned up")
        return Done()

    controller = Controller("c", reconcile, drain=0.02)
    controller.enqueue("a")
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["cancelled", "cleaned up"]


async def test_a_failing_source_of_keys_is_counted_and_asked_again() -> None:
    """Keys come from stored objects. What one of them raises must not end the controllers of all others."""
    asked: list[None] = []

    def keys() -> list[str]:
        asked.append(None)
        if len(asked) == 1:
            raise RuntimeError("no keys")
        return ["a"]

    before = HANDLING_FAULTS.labels("keyless")._value.get()
    attempts, reconcile = scripted(Done())
    task = asyncio.create_task(Controller("keyless", reconcile, keys=keys).run())
    try:
        await eventually(lambda: len(attempts) == 1)
        assert HANDLING_FAULTS.labels("keyless")._value.get() == before + 1
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_key_without_a_turn_is_dropped_and_the_others_are_reconciled() -> None:
    def turn(key: str) -> str:
        return {"good": "a"}[key]

    attempts, reconcile = scripted(Done())
    queue = WorkQueue[str](turn=turn)
    task = asyncio.create_task(Controller("c", reconcile, keys=lambda: ["poison", "good"], queue=queue).run())
    try:
        await eventually(lambda: len(attempts) == 1)
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_nothing_is_begun_from_a_cache_in_doubt_and_everything_is_looked_at_after_it() -> None:
    """Of two caches, either may be: what is decided from what never was is wrong, and no event says so later."""
    stores = [Store(dict), Store(dict)]
    doubts: list[tuple[str, bool]] = []

    async def reconcile(key: str) -> Result:
        doubts.append((key, any(store.in_doubt for store in stores)))
        return Done()

    for store in stores:
        store.mark_synced()
    controller = Controller("c", reconcile, stores=stores, keys=lambda: ["a", "b"], resync=None)
    async with running(controller.run()):
        await eventually(lambda: len(doubts) == 2)
        stores[1].suspect()
        controller.enqueue("c")
        await eventually(lambda: not len(controller.queue))
        stores[0].mark_synced()
        stores[1].mark_synced()
        await eventually(lambda: len(doubts) == 5)
    assert sorted(doubts[2:]) == [("a", False), ("b", False), ("c", False)]


async def test_a_doubt_holds_up_no_stop() -> None:
    store: Store[object] = Store(dict)
    store.mark_synced()
    seen, reconcile = scripted(Done())
    controller = Controller("c", reconcile, stores=[store], drain=60)
    async with running(controller.run()):
        store.suspect()
        controller.enqueue("a")
        await eventually(lambda: not len(controller.queue))
    assert seen == []


async def test_many_keys_that_wait_for_nothing_leave_the_loop_to_others() -> None:
    """A Lease has to be renewed meanwhile."""
    seen, reconcile = scripted(Done())
    controller = Controller("c", reconcile, workers=2)
    for number in range(1000):
        controller.enqueue(str(number))
    passes = 0
    async with running(controller.run()):
        while len(seen) < 1000:
            await asyncio.sleep(0)
            passes += 1
    assert passes > 400
