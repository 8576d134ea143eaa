"""The work queue: one key once, never twice at a time, later and later after failures."""

from __future__ import annotations

import asyncio

import pytest

from app.kube.queue import QueueClosed, WorkQueue
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.simulated


async def test_key_waits_once_and_in_order() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abab":
        queue.add(key)
    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_groups_take_turns() -> None:
    """Many keys of one tenant hold up none of another; in a group the oldest comes first."""
    queue: WorkQueue[tuple[str, int]] = WorkQueue(turn=lambda key: key[0])
    for number in range(100):
        queue.add(("loud", number))
    queue.add(("quiet", 0))
    queue.add(("loud", 0))
    assert len(queue) == 101
    assert [await queue.get() for _ in range(4)] == [("loud", 0), ("quiet", 0), ("loud", 1), ("loud", 2)]
    queue.add(("quiet", 0))  # a worker has it
    queue.add(("quiet", 1))
    assert [await queue.get() for _ in range(2)] == [("loud", 3), ("quiet", 1)]
    queue.done(("quiet", 0))
    assert [await queue.get() for _ in range(3)] == [("loud", 4), ("quiet", 0), ("loud", 5)]
    assert len(queue) == 94
    queue.close()
    assert len(queue) == 0


async def test_a_group_leaves_workers_to_the_others() -> None:
    """However long its work takes; the rest of it waits until one of its workers is free."""
    queue: WorkQueue[tuple[str, int]] = WorkQueue(turn=lambda key: key[0], each=2)
    for number in range(4):
        queue.add(("loud", number))
    assert [await queue.get() for _ in range(2)] == [("loud", 0), ("loud", 1)]
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add(("loud", 4))
    queue.add(("loud", 0))  # a worker has it
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    queue.add(("quiet", 0))
    assert await asyncio.wait_for(waiting[0], PATIENCE) == ("quiet", 0)
    assert len(queue) == 3
    assert [queue.unfinished(turn) for turn in ("loud", "quiet")] == [5, 1]
    assert queue.working == 3
    queue.done(("loud", 0))
    assert await asyncio.wait_for(waiting[1], PATIENCE) == ("loud", 2)
    for number in (1, 2):
        queue.done(("loud", number))
    assert [await queue.get() for _ in range(2)] == [("loud", 3), ("loud", 4)]
    for number in (3, 4):
        queue.done(("loud", number))
    assert await queue.get() == ("loud", 0)
    queue.done(("loud", 0))
    queue.done(("quiet", 0))
    assert queue.working == 0
    assert len(queue) == 0


async def test_key_added_during_work_runs_once_more_after_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done(key)
    assert await asyncio.wait_for(waiting, PATIENCE) == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_never_in_two_workers() -> None:
    queue: WorkQueue[int] = WorkQueue()
    active: set[int] = set()
    runs = 0

    async def work() -> None:
        nonlocal runs
        while True:
            key = await queue.get()
            assert key not in active
            active.add(key)
            await asyncio.sleep(0.001)
            active.discard(key)
            runs += 1
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(4)]
    for _ in range(20):
        for key in range(3):
            queue.add(key)
        await asyncio.sleep(0.0007)
    await asyncio.sleep(0.05)
    queue.close()
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert all(isinstance(result, QueueClosed) for result in results)
    assert runs >= 6


async def test_delayed_key_comes_when_its_time_is_there() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("late", 0.06)
    queue.add_after("soon", 0.02)
    queue.add_after("late", 0.5)
    queue.add_after("now", 0)
    assert len(queue) == 1
    assert [await asyncio.wait_for(queue.get(), PATIENCE) for _ in range(3)] == ["now", "soon", "late"]


async def test_earlier_delay_replaces_a_later_one() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 60)
    queue.add_after("a", 0.01)
    assert await asyncio.wait_for(queue.get(), PATIENCE) == "a"


async def test_backoff_grows_per_key_and_is_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue(random=lambda: 1.0)
    assert [queue.retry("a") for _ in range(4)] == [0.005, 0.01, 0.02, 0.04]
    assert queue.retry("b") == 0.005
    assert queue.retry("b", at_least=2) == 2
    for _ in range(100):
        longest = queue.retry("a")
    assert longest == 300
    queue.forget("a")
    assert queue.retry("a") == 0.005
    queue.close()


async def test_forget_drops_a_delay_under_way() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 0.01)
    queue.forget("a")
    await asyncio.sleep(0.03)
    assert len(queue) == 0


async def test_cancelled_getter_loses_no_wake_up() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, PATIENCE) == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_delay_that_a_loop_may_round_to_none_is_none() -> None:
    """uvloop counts milliseconds: a second delay for the key raised AttributeError there."""
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 0.0004)
    queue.add_after("a", 0.0004)
    assert len(queue) == 1
    assert await queue.get() == "a"


async def test_closed_queue_gives_and_takes_nothing() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("later", 0.01)
    queue.close()
    queue.add("a")
    queue.add_after("b", 0.01)
    with pytest.raises(QueueClosed):
        await waiting
    with pytest.raises(QueueClosed):
        await queue.get()
    await asyncio.sleep(0.02)
    assert len(queue) == 0
