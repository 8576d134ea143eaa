"""Makes a runnable of a server: the server drains when an event is set, the runnable when it is cancelled."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Draining(Protocol):
    """It runs until an event is set, and then ends what is under way."""

    async def run(self, stop: asyncio.Event) -> None: ...

    def waiting(self) -> list[str]: ...


class Drained:
    """Drains when it is cancelled; when it is cancelled again, it ends at once."""

    def __init__(self, draining: Draining) -> None:
        self._draining = draining

    def waiting(self) -> list[str]:
        return self._draining.waiting()

    async def run(self) -> None:
        stop = asyncio.Event()
        serving = asyncio.ensure_future(self._draining.run(stop))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            stop.set()
            await serving
            raise
