"""`berth status --watch`: one status after the other, at a bounded rate, also while the API server is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from app.doctor.cluster import Cluster
from app.errors import ApiError
from app.status.gathering import diagnose, gather
from app.status.model import Away, Diagnosis, Status

EXAMINED_EVERY = 60.0
"""Seconds between two examinations by the doctor, which asks much more than the sections."""


@dataclass
class Watch:
    """`fresh` makes a `Cluster` that has read nothing. `pause` are the seconds between two rounds of reads.

    A pause is never shorter than the reads before it took: a slow API server is asked half of the time at most.
    """

    fresh: Callable[[], Cluster]
    pause: float
    examined_every: float = EXAMINED_EVERY
    _diagnosis: Diagnosis | None = field(default=None, init=False)

    async def screens(self) -> AsyncGenerator[Status | Away]:
        """Without end; the first comes before the doctor has examined anything."""
        clock, doctor = asyncio.get_running_loop().time, asyncio.create_task(self._examine())
        try:
            while True:
                began = clock()
                yield await self._look()
                await asyncio.sleep(max(self.pause, clock() - began))
        finally:
            doctor.cancel()

    async def changes(self) -> AsyncGenerator[Status | Away]:
        """Only those that differ from the one before by more than times."""
        last: object = None
        async with aclosing(self.screens()) as screens:
            async for one in screens:
                essence = one.settled() if isinstance(one, Status) else Away
                if essence != last:
                    last = essence
                    yield one

    async def _look(self) -> Status | Away:
        cluster = self.fresh()
        try:
            return replace(await gather(cluster), diagnosis=self._diagnosis)
        except ApiError as error:
            return Away(cluster.now(), str(error))
        finally:
            await cluster.close()

    async def _examine(self) -> None:
        while True:
            cluster = self.fresh()
            try:
                self._diagnosis = await diagnose(cluster)
            except ApiError:
                await asyncio.sleep(self.pause)  # the screen says it
                continue
            finally:
                await cluster.close()
            await asyncio.sleep(self.examined_every)
