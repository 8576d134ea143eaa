"""Parts of Berth that run beside a test."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from tests.support.waiting import PATIENCE, eventually

T = TypeVar("T")


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


@contextlib.contextmanager
def threaded(manager: contextlib.AbstractAsyncContextManager[T]) -> Iterator[tuple[T, asyncio.AbstractEventLoop]]:
    """What the manager gives, and the loop of the thread that enters it and leaves it with the block."""
    entered: Future[tuple[T, asyncio.AbstractEventLoop]] = Future()
    over = asyncio.Event()

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            try:
                given = await stack.enter_async_context(manager)
            except BaseException as error:  # noqa: BLE001  the thread that waits raises it
                entered.set_exception(error)
                return
            entered.set_result((given, asyncio.get_running_loop()))
            await over.wait()

    # At its end, `asyncio.run` lets connections close that `run` has let go.
    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    given, loop = entered.result(PATIENCE)
    try:
        yield given, loop
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
