"""What may wait gives way to the calls of tenants that use the gateway less."""

from __future__ import annotations

import asyncio

from app.tenancy.gateway.precedence import Precedence
from tests.support.waiting import PATIENCE

TURNS = 20
"""Turns of the loop in which everything that does not wait is done."""


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def used(precedence: Precedence, name: str, events: int) -> None:
    for _ in range(events):
        await precedence.give_way(name)


async def test_events_of_a_loud_tenant_wait_for_the_call_of_a_quiet_one() -> None:
    precedence = Precedence(moment=PATIENCE)
    await used(precedence, "loud", 100)
    with precedence.call("quiet"):
        event = asyncio.create_task(precedence.give_way("loud"))
        await turns()
        assert not event.done()
    await event


async def test_events_of_a_quiet_tenant_wait_for_no_loud_one() -> None:
    precedence = Precedence(moment=PATIENCE)
    await used(precedence, "loud", 100)
    with precedence.call("loud"):
        await precedence.give_way("quiet")


async def test_a_tenant_does_not_wait_for_its_own_calls() -> None:
    precedence = Precedence(moment=PATIENCE)
    with precedence.call("a"):
        await used(precedence, "a", 100)


async def test_events_go_on_while_others_always_have_calls() -> None:
    precedence = Precedence(moment=1e-6)
    await used(precedence, "loud", 100)
    with precedence.call("quiet"):
        await used(precedence, "loud", 10)


async def test_the_last_call_of_a_name_lets_others_go_on() -> None:
    """A cancelled call is over as well, and who waited and is cancelled leaves nothing."""
    precedence = Precedence(moment=PATIENCE)
    await used(precedence, "loud", 100)

    async def call() -> None:
        with precedence.call("quiet"):
            await asyncio.sleep(PATIENCE)

    calls = [asyncio.create_task(call()) for _ in range(2)]
    await turns()
    events = [asyncio.create_task(precedence.give_way("loud")) for _ in range(3)]
    await turns()
    events[0].cancel()
    calls[0].cancel()
    await turns()
    assert [event.done() for event in events] == [True, False, False]
    calls[1].cancel()
    await asyncio.gather(*events[1:])
    assert not precedence._calls


async def test_names_that_used_little_are_forgotten() -> None:
    now = 0.0
    precedence = Precedence(clock=lambda: now)
    for number in range(1000):
        await precedence.give_way(f"t{number}")
    now = 60.0
    precedence.forget_idle()
    assert not precedence._used
