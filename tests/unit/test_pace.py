"""Work in slices: the event loop goes on between them, and what is not waited for any more ends."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from app.pace import STEPS, Ended, Pace, _Work, step
from tests.support.waiting import PATIENCE


def counted(slices: int, turns: list[str], name: str = "work") -> str:
    for _ in range(slices):
        turns.append(name)
        step(STEPS)
    return name


async def test_the_loop_goes_on_between_slices() -> None:
    turns: list[str] = []

    async def other() -> None:
        for _ in range(3):
            turns.append("other")
            await asyncio.sleep(0)

    pace = Pace()
    found, _ = await asyncio.gather(pace.in_slices(partial(counted, 6, turns)), other())
    assert (found, pace.slices) == ("work", 7)
    assert max(index for index, turn in enumerate(turns) if turn == "other") < len(turns) - 2, turns


async def test_one_work_has_its_slice_in_an_iteration_and_then_the_next_work() -> None:
    turns: list[str] = []
    pace = Pace()
    await asyncio.gather(*(pace.in_slices(partial(counted, 3, turns, name)) for name in "abc"))
    assert turns == [*"abc"] * 3


async def test_outside_of_slices_a_step_does_nothing() -> None:
    assert counted(3, []) == "work"


async def test_a_fault_is_raised_where_the_work_is_waited_for() -> None:
    def fail() -> None:
        step(STEPS)
        raise KeyError("x")

    with pytest.raises(KeyError):
        await Pace().in_slices(fail)


async def test_canceled_work_ends_at_its_next_step_and_leaves_no_thread() -> None:
    before, ended = threading.active_count(), []

    def endless() -> None:
        try:
            while True:
                step()
        except Exception as error:  # noqa: BLE001  as walls have it
            ended.append(error)
        except Ended:
            ended.append(None)
            raise

    pace = Pace()
    work = asyncio.create_task(pace.in_slices(endless))
    for _ in range(20):
        await asyncio.sleep(0)
    assert pace.slices > 3
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert ended == [None]
    for thread in threading.enumerate():
        if thread.name == "slices":
            thread.join(PATIENCE)
    assert threading.active_count() == before


async def test_a_thread_that_cannot_be_started_is_a_fault_of_this_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def go_on(work: object) -> None:
        """Where the call waited for a thread that does not run, the loop would stand still, and this test with it."""
        assert not tries, "a thread that was not started is waited for"
        tries.append(work)
        run(work)  # type: ignore[arg-type]

    tries: list[object] = []
    pace, run = Pace(), _Work.go_on
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        patched.setattr(_Work, "go_on", go_on)
        with pytest.raises(RuntimeError, match="new thread"):
            await pace.in_slices(lambda: 1)
    assert await pace.in_slices(lambda: 1) == 1
