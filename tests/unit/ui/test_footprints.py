"""Results are computed once, and again when what they read changes, gets old, or failed."""

from __future__ import annotations

import asyncio

import pytest

from app.kube.reflector import Scope
from app.kube.resources import PODS
from app.ui.footprints import OLD, Footprint, Results
from tests.support.clock import Clock

POD = {"metadata": {"name": "web", "namespace": "team"}}


class Reads:
    """A computation that reads one namespace, and counts."""

    def __init__(self, within: float = OLD) -> None:
        self.count, self.within = 0, within

    async def __call__(self, footprint: Footprint) -> int:
        footprint.read(Scope(PODS, "team"))
        footprint.holds(self.within)
        await asyncio.sleep(0)
        self.count += 1
        return self.count


async def test_all_who_ask_share_one_computation() -> None:
    results, reads = Results(), Reads()
    got = await asyncio.gather(*(results.get("key", reads) for _ in range(10)))
    assert {result.task.result() for result in got} == {1}


async def test_a_change_of_what_was_read_computes_again_and_wakes() -> None:
    results, reads = Results(), Reads()
    result, woken = await results.get("key", reads), asyncio.Event()
    result.wakes(woken)
    results.changed(PODS, ("other", "web"), None, POD)
    assert not woken.is_set()
    results.changed(PODS, ("team", "web"), None, POD)
    assert woken.is_set()
    assert result.stale
    assert (await results.get("key", reads)).task.result() == 2


async def test_a_change_while_it_is_computed_counts() -> None:
    results, began = Results(), asyncio.Event()

    async def slow(footprint: Footprint) -> str:
        footprint.read(Scope(PODS))
        began.set()
        await asyncio.sleep(0.01)
        return "old"

    task = asyncio.create_task(results.get("key", slow))
    await began.wait()
    results.changed(PODS, ("team", "web"), None, POD)
    assert (await task).stale


async def test_what_is_not_watched_gets_old() -> None:
    clock = Clock()
    results, reads = Results(clock=clock), Reads(within=5.0)
    for now, count in ((0.0, 1), (4.9, 1), (5.0, 2), (9.9, 2)):
        clock.now = now
        assert (await results.get("key", reads)).task.result() == count
        await asyncio.sleep(0)


async def test_a_fault_stands_for_a_moment() -> None:
    clock, count = Clock(), 0
    results = Results(clock=clock)

    async def fails(_: Footprint) -> None:
        nonlocal count
        count += 1
        raise ValueError(count)

    for now, expected in ((0.0, 1), (1.0, 1), (3.0, 2)):
        clock.now = now
        with pytest.raises(ValueError, match=str(expected)):
            await results.get("key", fails)
        await asyncio.sleep(0)


async def test_one_who_gives_up_does_not_end_it_for_others() -> None:
    results, reads = Results(), Reads()
    first = asyncio.create_task(results.get("key", reads))
    second = asyncio.create_task(results.get("key", reads))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).task.result() == 1


async def test_what_takes_long_is_waited_for_by_none_and_done_at_most_so_often() -> None:
    clock = Clock()
    results, reads = Results(clock=clock), Reads()
    last, signal = results.later("key", reads, every=60.0)
    assert last is None
    woken = asyncio.Event()
    signal.wakes(woken)
    await woken.wait()
    for now, count in ((1.0, 1), (59.0, 1), (61.0, 1)):
        clock.now = now
        last, signal = results.later("key", reads, every=60.0)
        assert last is not None
        assert last.task.result() == count
    woken.clear()
    signal.wakes(woken)
    await woken.wait()
    last, _ = results.later("key", reads, every=60.0)
    assert last is not None
    assert last.task.result() == 2
