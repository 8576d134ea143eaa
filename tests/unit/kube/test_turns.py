"""Places that many names share."""

from __future__ import annotations

import asyncio
import contextlib

from app.kube.turns import Turns
from tests.support.waiting import PATIENCE


async def test_turns_go_round() -> None:
    """A name with a hundred waiting lets another in as soon as one place is free."""
    turns = Turns(total=2, each=2)
    order: list[str] = []
    gate = asyncio.Event()

    async def one(name: str) -> None:
        async with turns.of(name):
            await gate.wait()
            order.append(name)

    tasks = [asyncio.create_task(one("loud")) for _ in range(100)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(one(name)) for name in ("b", "c", "b")]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*tasks)
    assert {"b", "c"} <= set(order[:6])
    assert order.count("loud") == 100


async def test_one_name_never_takes_more_than_its_share() -> None:
    turns = Turns(total=4, each=2)
    inside = 0
    most = 0

    async def one() -> None:
        nonlocal inside, most
        async with turns.of("a"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    await asyncio.gather(*(one() for _ in range(20)))
    assert most == 2


async def test_cancelled_waiters_leave_their_places() -> None:
    turns = Turns(total=1, each=1)

    async def hold(gate: asyncio.Event) -> None:
        async with turns.of("a"):
            await gate.wait()

    gate = asyncio.Event()
    tasks = [asyncio.create_task(hold(gate)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in tasks[1:4]:
        task.cancel()
    gate.set()
    tasks[0].cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    async with asyncio.timeout(PATIENCE), turns.of("a"):
        pass
