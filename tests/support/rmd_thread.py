"""Stand-in daemons on loopback for tests without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from app.devtools.rmd.machine import Machine
from app.devtools.rmd.model import Workload
from app.devtools.rmd.server import Served, serve
from app.devtools.rmd.workloads import Daemon
from tests.support.running import threaded

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
    with threaded(_serving(count, machine)) as (serving, loop):
        yield [Background(served, loop) for served in serving]


@contextlib.asynccontextmanager
async def _serving(count: int, machine: Machine | None) -> AsyncIterator[list[Served]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(serve(Daemon(machine))) for _ in range(count)]
