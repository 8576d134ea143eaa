"""The signals that stop a role: the first one asks it to drain, a later one not to wait for that.

It only listens; what draining means is the role's own business.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

import structlog

ECHO_SECONDS = 0.25
"""A signal so soon after the first is the same wish: process groups and wrappers deliver one twice."""

_log = structlog.get_logger(__name__)


async def until_signal(run: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run until SIGTERM or SIGINT, which sets the event; a second one ends the drain at once, with CancelledError."""
    task = asyncio.current_task()

    def hurry() -> None:
        if task is not None:
            task.cancel()

    await run(on_stop(hurry))


def on_stop(hurry: Callable[[], None]) -> asyncio.Event:
    """An event that SIGTERM or SIGINT sets; each later signal calls `hurry`. Call it in the running loop."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    asked_at = 0.0

    def on_signal(received: signal.Signals) -> None:
        nonlocal asked_at
        if not stop.is_set():
            # A log that ends without this line is that of a process that was killed.
            _log.info("stopping", signal=received.name)
            asked_at = loop.time()
            stop.set()
        elif loop.time() - asked_at >= ECHO_SECONDS:
            hurry()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stop
