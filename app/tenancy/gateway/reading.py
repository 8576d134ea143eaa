"""Reads and checks requests: small ones at once, large ones beside the event loop, so that they hold nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from app.tenancy.gateway.limits import Turns

T = TypeVar("T")
_SMALL = 4096
"""Bytes that are read at once."""
SMALL_MESSAGE = 32 * 1024
"""As much of a protobuf message is: it takes a tenth of the time that as much of a manifest takes."""


class Readers:
    """Large requests are read two at a time, and one of each tenant."""

    def __init__(self) -> None:
        self._turns = Turns(total=2, each=1)

    async def read(self, work: Callable[[], T], *, size: int, tenant: str, small: int = _SMALL) -> T:
        """What `work` returns or raises; it must not touch what belongs to the event loop."""
        if size <= small:
            return work()
        async with self._turns.of(tenant):
            return await asyncio.to_thread(work)
