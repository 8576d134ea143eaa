"""Parts of Berth that run beside a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.support.waiting import eventually


@contextlib.asynccontextmanager
async def running(coroutine: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """Runs a coroutine beside the test and ends it."""
    task = asyncio.ensure_future(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def at_work(part: Any, *others: Any, ready: bool = True) -> AsyncIterator[None]:
    """Runs a part, and others that are not None and end after it; with `ready` from when it waits for nothing or has ended."""
    async with contextlib.AsyncExitStack() as stack:
        for one in filter(None, others):
            await stack.enter_async_context(running(one.run()))
        task = await stack.enter_async_context(running(part.run()))
        if ready:
            await eventually(lambda: not part.waiting() or task.done())
        yield
