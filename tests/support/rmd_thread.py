"""Stand-in daemons on loopback for tests without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from app.devtools.rmd.machine import Machine
from app.devtools.rmd.model import Workload
from app.devtools.rmd.server import Served, serve
from app.devtools.rmd.workloads import Daemon

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Background:
    """A daemon that a thread serves. A method runs there, between two requests."""

    served: Served
    loop: asyncio.AbstractEventLoop

    @property
    def port(self) -> int:
        return int(self.served.url.rpartition(":")[2])

    def workloads(self) -> list[Workload]:
        return self._there(self.served.daemon.workloads)

    def add(self, one: Workload) -> Workload:
        return self._there(lambda: self.served.daemon.add(one))

    def _there(self, look: Callable[[], T]) -> T:
        async def run() -> T:
            return look()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result()


@contextlib.contextmanager
def daemons(count: int, machine: Machine | None = None) -> Iterator[list[Background]]:
    """So many daemons on machines alike, until the block ends."""
    ready: threading.Event = threading.Event()
    found: list[Background] = []
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(count):
                served = await stack.enter_async_context(serve(Daemon(machine)))
                found.append(Background(served, loop))
            ready.set()
            await over.wait()

    def work() -> None:
        # At its end, a runner lets connections close that `run` has let go.
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(run())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        ready.wait()
        yield found
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
