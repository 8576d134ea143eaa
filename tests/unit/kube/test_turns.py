"""Places that many names share."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque

import pytest

from app.kube.turns import AdaptiveTurns, Turns
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


class Server:
    """Answers `at_once` requests at a time, each in one second of its own clock."""

    def __init__(self, turns: AdaptiveTurns, *, at_once: int) -> None:
        self.turns, self._at_once = turns, at_once
        self._arrived: deque[tuple[str, float, asyncio.Future[None]]] = deque()
        self._clock = 0.0
        self.inside: Counter[str] = Counter()
        self.answered: list[str] = []

    async def ask(self, name: str) -> None:
        async with self.turns.of(name):
            self.inside[name] += 1
            began, answer = self._clock, asyncio.get_running_loop().create_future()
            self._arrived.append((name, began, answer))
            await answer
            self.inside[name] -= 1
            self.turns.took(name, "GET", self._clock - began)

    async def work(self, seconds: int) -> int:
        """The most that a name had under way in the last half of these seconds."""
        most = 0
        for second in range(seconds):
            for _ in range(10):
                await asyncio.sleep(0)
            if second >= seconds // 2:
                most = max([most, *self.inside.values()])
            self._clock += 1
            for _ in range(min(self._at_once, len(self._arrived))):
                name, _, answer = self._arrived.popleft()
                if not answer.done():
                    self.answered.append(name)
                    answer.set_result(None)
        return most


@pytest.mark.parametrize(("at_once", "most"), [(1, 2), (16, 4)])
async def test_no_more_is_under_way_than_a_server_answers_at_once_and_one(at_once: int, most: int) -> None:
    """A server that answers one at a time has as much to do with two: none of its seconds passes without an answer."""
    server = Server(AdaptiveTurns(total=16, each=4), at_once=at_once)
    tasks = [asyncio.create_task(server.ask("loud")) for _ in range(400)]
    seen = await server.work(60)
    assert seen <= most + 1 if at_once == 1 else seen == most
    assert len(server.answered) >= 60 * min(at_once, most)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_name_that_is_alone_has_all_its_places_though_its_requests_take_long() -> None:
    """Some take five times as long as others at a server where none waits. With another name it has fewer again."""
    turns, leave, inside = AdaptiveTurns(total=16, each=4), asyncio.Event(), 0

    async def ask(name: str, seconds: float) -> None:
        async with turns.of(name):
            turns.took(name, "GET", seconds)

    async def stay() -> None:
        nonlocal inside
        async with turns.of("loud"):
            inside += 1
            await leave.wait()
            inside -= 1

    async def seen() -> int:
        tasks = [asyncio.create_task(stay()) for _ in range(8)]
        for _ in range(3):
            await asyncio.sleep(0)
        most = inside
        leave.set()
        await asyncio.gather(*tasks)
        leave.clear()
        return most

    for number in range(2000):
        await ask("loud", 1.0 + number % 5)
    assert await seen() == 4
    await ask("quiet", 1.0)
    assert await seen() == 2


async def test_a_quiet_name_is_answered_after_what_is_under_way() -> None:
    """100 requests of a loud name wait; no more than three of them are answered before the one of the quiet name."""
    server = Server(AdaptiveTurns(total=16, each=4), at_once=1)
    tasks = [asyncio.create_task(server.ask("loud")) for _ in range(200)]
    await server.work(60)
    before = len(server.answered)
    tasks.append(asyncio.create_task(server.ask("quiet")))
    await server.work(10)
    assert server.answered.index("quiet") - before <= 3
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_thousand_names_with_one_request_each_leave_nothing() -> None:
    """Half of them hang up while they wait."""
    server = Server(AdaptiveTurns(total=16, each=4), at_once=16)
    tasks = [asyncio.create_task(server.ask(f"t{number}")) for number in range(1000)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await server.work(100)
    await asyncio.gather(*tasks, return_exceptions=True)
    server.turns.forget_idle()
    assert len(server.answered) == 500
    # Each of them has all its places again, and together they have all that there are.
    server.inside.clear()  # who hung up inside is counted still
    again = [asyncio.create_task(server.ask(f"t{number}")) for number in (*[1] * 5, *[2] * 5, *range(3, 20))]
    for _ in range(3):
        await asyncio.sleep(0)
    assert (server.inside["t1"], server.inside["t2"], server.inside.total()) == (4, 4, 16)
    for task in again:
        task.cancel()
    await asyncio.gather(*again, return_exceptions=True)
