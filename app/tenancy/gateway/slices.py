"""Long work in slices: no tenant's list or sweep holds the event loop while calls of others wait."""

from __future__ import annotations

import asyncio

_BYTES = 64 * 1024


class Slices:
    """A slice ends after so many objects, or after 64 KiB of them, whichever is reached first."""

    def __init__(self, objects: int) -> None:
        self._most = objects
        self._objects = self._bytes = 0

    async def worked(self, size: int = 0) -> None:
        """One more object of so many bytes is done. Other work has its turn where that ends a slice."""
        self._objects += 1
        self._bytes += size
        if self._objects >= self._most or self._bytes >= _BYTES:
            self._objects = self._bytes = 0
            await asyncio.sleep(0)
