"""How a test waits for what comes true by itself."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from tests.support.simulated import SimulatedLoop

T = TypeVar("T")

PATIENCE = 240.0
"""Seconds. It ends a test that hangs and says nothing about how fast anything is: a busy machine takes its time."""

_PAUSE = 0.02
_SHARE = 3
"""A look that costs much, such as a kubectl, is paused after for this many times as long: waiting leaves the CPU to others."""
_LATENESS, _LATEST = 0.05, 1.0
"""On a simulated clock, each turn of which takes real time, what took long is seen late by this share of it, at
most by so many seconds."""


class Refused(Exception):
    """The API server said no; the text is what the user reads."""


async def eventually(
    look: Callable[[], Awaitable[T] | T], accept: Callable[[T], Any] = bool, *, seconds: float = PATIENCE
) -> T:
    """What `look` (a plain or an async function) returns once `accept` takes it; the test fails after `seconds`."""
    found: Any = None
    loop = asyncio.get_running_loop()
    asked, lateness = loop.time(), _LATENESS if isinstance(loop, SimulatedLoop) else 0.0
    try:
        async with asyncio.timeout(seconds):
            while True:
                began = time.monotonic()
                found = look()
                if inspect.isawaitable(found):
                    found = await found
                if accept(found):
                    return found
                late = min(_LATEST, lateness * (loop.time() - asked))
                await asyncio.sleep(max(_PAUSE, _SHARE * (time.monotonic() - began), late))
    except TimeoutError:
        pytest.fail(f"still not so after {seconds:g} s: {found!r}")


def wait_until(condition: Callable[[], Any], *, seconds: float = PATIENCE) -> Any:
    """What `condition` returns once it is true; fails after `seconds`. Errors of the API count as "not yet"."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        last: object = None
        began = time.monotonic()
        try:
            last = condition()
            if last:
                return last
        except Refused as error:
            last = error
        if time.monotonic() > end:
            pytest.fail(f"still not so after {seconds:g} s: {last!r}")
        pause.wait(max(_PAUSE, _SHARE * (time.monotonic() - began)))
