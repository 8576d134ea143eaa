"""Workers: when they start, what each verdict leads to, how they stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.errors import ApiError, Terminal, Transient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.queue import WorkQueue
from app.kube.store import Key, Store
from app.kube.turns import request_place
from app.metrics import HANDLING_FAULTS
from tests.support.counting import Counted, value
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
    controller = Controller("c", reconcile, stores=stores, turn=None)
    controller.enqueue("early")
    async with running(controller.run()):
        stores[0].mark_synced()
        await asyncio.sleep(0.02)
        assert seen == []
        stores[1].mark_synced()
        await eventually(lambda: seen == ["early"])


async def test_first_run_and_resync_cover_every_key() -> None:
    seen, reconcile = scripted(Done())
    async with running(Controller("c", reconcile, keys=lambda: ["a", "b"], resync=0.05, turn=None).run()):
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
    controller = Controller("c", reconcile, turn=None)
    async with running(controller.run()):
        controller.enqueue("a")
        await eventually(lambda: counted() == {outcome: 1, "done": 1})
    assert seen == ["a", "a"]


_LARGE = "PATCH /apis/g/v1/namespaces/n/things/a/status: HTTP "


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (Done(), "done"),
        (Terminal("wrong"), "terminal"),
        (ApiError(f"{_LARGE}413: Request entity too large: limit is 3145728", status=413), "terminal"),
        (ApiError(f"{_LARGE}500: etcdserver: request is too large", status=500), "terminal"),
        (ApiError(f"{_LARGE}422: status.items: Too many: 19: must have at most 18 items", status=422), "terminal"),
        (ApiError(f"{_LARGE}422: message: Too long: may not be more than 32768 bytes", status=422), "terminal"),
    ],
)
async def test_not_tried_again_until_added_anew(verdict: Result | Exception, outcome: str) -> None:
    counted = outcomes()
    seen, reconcile = scripted(verdict)
    controller = Controller("c", reconcile, turn=None)
    async with running(controller.run()):
        controller.enqueue("a")
        await eventually(lambda: counted() == {outcome: 1})
        await asyncio.sleep(0.05)
        assert seen == ["a"]
        controller.enqueue("a")
        await eventually(lambda: counted() == {outcome: 2})


async def test_delay_of_the_fault_is_a_lower_bound() -> None:
    seen, reconcile = scripted(Transient("busy", delay=30), Done())
    controller = Controller("c", reconcile, turn=None)
    controller.queue = WorkQueue(random=lambda: 0.0)
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

    controller = Controller("c", reconcile, workers=2, drain=0.01, turn=None)
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

    controller = Controller("c", reconcile, workers=1, turn=None)
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

    controller = Controller("c", reconcile, drain=0.02, turn=None)
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

    before = value(HANDLING_FAULTS.labels("keyless"))
    attempts, reconcile = scripted(Done())
    task = asyncio.create_task(Controller("keyless", reconcile, keys=keys, turn=None).run())
    try:
        await eventually(lambda: len(attempts) == 1)
        assert value(HANDLING_FAULTS.labels("keyless")) == before + 1
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_key_without_a_turn_is_dropped_and_the_others_are_reconciled() -> None:
    def turn(key: str) -> str:
        return {"good": "a"}[key]

    attempts, reconcile = scripted(Done())
    task = asyncio.create_task(Controller("c", reconcile, keys=lambda: ["poison", "good"], turn=turn).run())
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
    controller = Controller("c", reconcile, stores=stores, keys=lambda: ["a", "b"], resync=None, turn=None)
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
    controller = Controller("c", reconcile, stores=[store], drain=60, turn=None)
    async with running(controller.run()):
        store.suspect()
        controller.enqueue("a")
        await eventually(lambda: not len(controller.queue))
    assert seen == []


async def test_many_keys_that_wait_for_nothing_leave_the_loop_to_others() -> None:
    """A Lease has to be renewed meanwhile."""
    seen, reconcile = scripted(Done())
    controller = Controller("c", reconcile, workers=2, turn=None)
    for number in range(1000):
        controller.enqueue(str(number))
    passes = 0
    async with running(controller.run()):
        while len(seen) < 1000:
            await asyncio.sleep(0)
            passes += 1
    assert passes > 400


Log = list[tuple[str, str]]


def sending(requests: dict[str, int], log: Log) -> Callable[[Key], Awaitable[Result]]:
    """A reconcile with so many requests for each object of a namespace; the log has each of them in their order."""

    async def reconcile(key: Key) -> Result:
        for _ in range(requests[key[0]]):
            async with request_place():
                await asyncio.sleep(0)
                log.append(key)
        log.append((key[0], "done"))
        return Done()

    return reconcile


@pytest.mark.parametrize("workers", [2, 4, 16])
async def test_a_namespace_waits_for_two_rounds_of_requests_of_others_for_each_of_its_own(workers: int) -> None:
    """However many objects the others have, and however many requests each of them takes."""
    log: Log = []
    reconcile = sending({"loud": 1000, "louder": 1000, "quiet": 3}, log)
    controller: Controller[Key] = Controller("c", reconcile, workers=workers, resync=None)
    for namespace in ("loud", "louder"):
        for number in range(100):
            controller.enqueue((namespace, str(number)))
    async with running(controller.run()):
        while len(log) <= 500:  # noqa: ASYNC110  the log has no event
            await asyncio.sleep(0)
        controller.enqueue(("quiet", "a"))
        begin = len(log)
        while ("quiet", "done") not in log[begin:]:  # noqa: ASYNC110  as above
            await asyncio.sleep(0)
    between = [key for key in log[begin : log.index(("quiet", "done"))] if key[0] != "quiet"]
    # A round until each of the three has its place, and a round that is answered beside it; those under way before.
    assert len(between) <= 2 * workers * (3 + 1)


async def test_requests_without_an_answer_leave_places_to_other_namespaces() -> None:
    done: list[Key] = []

    async def reconcile(key: Key) -> Result:
        async with request_place():
            if key[0] == "hangs":
                await asyncio.Event().wait()
        done.append(key)
        return Done()

    controller: Controller[Key] = Controller("c", reconcile, workers=4, resync=None, drain=0.01)
    async with running(controller.run()):
        for number in range(100):
            controller.enqueue(("hangs", str(number)))
        controller.enqueue(("quiet", "a"))
        await eventually(lambda: done == [("quiet", "a")])


async def test_workers_come_as_keys_do() -> None:
    """A namespace may have 16 times as many keys under way as workers; tasks for none of them wait idle."""
    free = asyncio.Event()

    async def reconcile(_key: Key) -> Result:
        await free.wait()
        return Done()

    controller: Controller[Key] = Controller("c", reconcile, workers=4, resync=None)
    before = len(asyncio.all_tasks())
    async with running(controller.run()):
        for number in range(5):
            controller.enqueue((str(number), "a"))
        await eventually(lambda: controller.queue.working == 5)
        assert len(asyncio.all_tasks()) <= before + 5 + 3  # the run, the feed, and the worker that waits for a key
        free.set()
