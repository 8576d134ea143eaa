"""What one workload stream still has to write: the latest state of each id, in the order of their first change.

Bounded in number and bytes: `room` makes the reader of the stream wait, which holds up its sender alone.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from app.kube.queue import WorkQueue
from app.tenancy.gateway.options import Limits
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class State:
    """What a workload is to be: its spec, or None for gone. `size` is the spec's in bytes."""

    spec: JSON | None
    digest: bytes = b""
    size: int = 0


GONE = State(None)


class Intake:
    """`queue` gives ids to workers; `wanted` is their latest state until it is `settled`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._wanted: dict[str, State] = {}
        self._bytes = 0
        self._changed = asyncio.Event()
        self.queue: WorkQueue[str] = WorkQueue(base=0.1, cap=15.0)

    def put(self, workload_id: str, state: State) -> None:
        """A newer state replaces one that has not been written yet."""
        old = self._wanted.get(workload_id)
        self._bytes += state.size - (old.size if old is not None else 0)
        self._wanted[workload_id] = state
        self.queue.forget(workload_id)
        self.queue.add(workload_id)

    def wanted(self, workload_id: str) -> State | None:
        return self._wanted.get(workload_id)

    def settle(self, workload_id: str, state: State) -> None:
        """This state has been written, or given up; a newer one that came meanwhile stays."""
        if self._wanted.get(workload_id) is state:
            del self._wanted[workload_id]
            self._bytes -= state.size
            self._changed.set()

    async def room(self) -> None:
        """Wait until another event may be read."""
        while len(self._wanted) >= self._limits.pending_events or self._bytes >= self._limits.pending_bytes:
            await self._change()

    async def empty(self) -> None:
        """Wait until everything has been settled."""
        while self._wanted:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
