"""`berth` processes with a health port, as tests of certificates start them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from tests.support.processes import Berth


@contextlib.asynccontextmanager
async def berth(*arguments: str) -> AsyncIterator[Berth]:
    """Started with a health port of its own; its end by SIGTERM has to be a clean one."""
    process = Berth(*arguments, "--bind-address", "127.0.0.1", "--health-check-port", "0")
    try:
        yield process
    finally:
        status = await process.end()
    assert status == 0, process.lines[-20:]
