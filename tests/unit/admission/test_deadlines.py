"""Deadlines end what is overdue, and nothing else; a cancellation from elsewhere stays one."""

from __future__ import annotations

import asyncio

import pytest

from app.admission.body import Deadlines


async def test_what_is_overdue_times_out_and_the_task_goes_on() -> None:
    deadlines = Deadlines()
    with pytest.raises(TimeoutError), deadlines.limit(0.01):
        await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_each_task_has_its_own_deadline() -> None:
    deadlines = Deadlines()

    async def wait(seconds: float) -> str:
        try:
            with deadlines.limit(seconds):
                await asyncio.sleep(0.3)
        except TimeoutError:
            return "late"
        return "done"

    assert await asyncio.gather(wait(0.05), wait(30), wait(0.1), wait(30)) == ["late", "done", "late", "done"]


async def test_a_block_that_ended_in_time_is_left_alone_afterwards() -> None:
    deadlines = Deadlines()
    with deadlines.limit(0.01):
        await asyncio.sleep(0)
    await asyncio.sleep(0.2)


async def test_a_cancellation_from_elsewhere_passes_through() -> None:
    deadlines, begun = Deadlines(), asyncio.Event()

    async def wait() -> None:
        with deadlines.limit(30):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_errors_of_the_block_are_its_own() -> None:
    with pytest.raises(KeyError), Deadlines().limit(30):
        raise KeyError("k")
