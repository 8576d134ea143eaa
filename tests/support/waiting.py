"""How a test waits for what comes true by itself."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

PATIENCE = 240.0
"""Seconds. It ends a test that hangs and says nothing about how fast anything is: a busy machine takes its time."""

_PAUSE = 0.02
_SHARE = 3
"""A look that costs much, such as a kubectl, is paused after for this many times as long: waiting leaves the CPU to others."""
_LATENESS = 0.05
"""What has taken long may be seen late by this share of it. Each turn of a simulated clock costs some real milliseconds."""


class Refused(Exception):
    """The API server said no; the text is what the user reads."""


async def eventually(
    look: Callable[[], Awaitable[T] | T], accept: Callable[[T], Any] = bool, *, seconds: float = PATIENCE
) -> T:
    """What `look` (a plain or an async function) returns once `accept` takes it; the test fails after `seconds`."""
    found: Any = None
    loop = asyncio.get_running_loop()
    asked = loop.time()
    try:
        async with asyncio.timeout(seconds):
            while True:
                began = time.monotonic()
                found = look()
                if inspect.isawaitable(found):
                    found = await found
                if accept(found):
                    return found
                await asyncio.sleep(_pause(time.monotonic() - began, loop.time() - asked))
    except TimeoutError:
        pytest.fail(f"still not so after {seconds:g} s: {found!r}")


def wait_until(condition: Callable[[], Any], *, seconds: float = PATIENCE) -> Any:
    """What `condition` returns once it is true; fails after `seconds`. Errors of the API count as "not yet"."""
    asked = time.monotonic()
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
        waited = time.monotonic() - asked
        if waited > seconds:
            pytest.fail(f"still not so after {seconds:g} s: {last!r}")
        pause.wait(_pause(time.monotonic() - began, waited))


def _pause(cost: float, waited: float) -> float:
    """Seconds until the next look, after one that took `cost`, `waited` seconds after the first."""
    return max(_PAUSE, _SHARE * cost, _LATENESS * waited)
