"""Stand-in daemons on loopback for tests without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from app.devtools.rmd.server import Served, serve
from app.devtools.rmd.workloads import Daemon


@contextlib.contextmanager
def daemons(count: int) -> Iterator[list[Served]]:
    """So many daemons, served by a thread. What they hold may be looked at, and changed, before they are asked."""
    ready: threading.Event = threading.Event()
    found: list[Served] = []
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            found.extend([await stack.enter_async_context(serve(Daemon())) for _ in range(count)])
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    try:
        ready.wait()
        yield found
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
