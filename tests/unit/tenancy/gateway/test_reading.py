"""What reading a caller's requests costs is counted by the CPU that it takes, and by caller."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import pytest

from app.tenancy.gateway.reading import Readers
from app.tenancy.gateway.settings import Limits
from tests.support.waiting import eventually

LARGE, SMALL = 100_000, 100
NEVER = Limits(reading_share=1e-9, reading_burst=1e-6)
"""After one request that costs anything, no other in this life."""


def compute() -> int:
    """Some microseconds of CPU at least, whatever the clock's resolution."""
    began = time.thread_time()
    while time.thread_time() - began < 1e-4:
        pass
    return 1


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_a_caller_beyond_its_share_waits_and_others_do_not(size: int) -> None:
    readers = Readers(NEVER)
    assert await readers.read(compute, size=size, tenant="a") == 1
    waiting = asyncio.create_task(readers.read(compute, size=size, tenant="a"))
    assert await readers.read(compute, size=size, tenant="b") == 1
    assert await readers.read(compute, size=LARGE, tenant="c") == 1
    assert not waiting.done()
    waiting.cancel()


async def test_what_fails_is_charged_and_raised() -> None:
    readers = Readers(NEVER)

    def fail() -> None:
        compute()
        raise ValueError("no")

    for tenant, size in (("a", SMALL), ("b", LARGE)):
        with pytest.raises(ValueError, match="no"):
            await readers.read(fail, size=size, tenant=tenant)
        waiting = asyncio.create_task(readers.read(compute, size=size, tenant=tenant))
        assert await readers.read(compute, size=size, tenant=f"other {tenant}") == 1
        assert not waiting.done()
        waiting.cancel()


async def test_who_hangs_up_keeps_its_turn_until_the_thread_is_done() -> None:
    """Else it could begin as many threads as it hangs up calls."""
    readers, go, begun = Readers(Limits()), threading.Event(), threading.Event()

    def slow() -> int:
        begun.set()
        go.wait()
        return compute()

    first = asyncio.create_task(readers.read(slow, size=LARGE, tenant="a"))
    await eventually(begun.is_set)
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    second = asyncio.create_task(readers.read(compute, size=LARGE, tenant="a"))
    for _ in range(20):
        assert await readers.read(compute, size=LARGE, tenant="b") == 1
    early = second.done()
    go.set()
    assert not early
    assert await second == 1
    assert not readers._under_way
