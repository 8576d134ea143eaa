"""The two ends of a connection that is handed on: what comes in at one goes out at the other, as fast as that can."""

from __future__ import annotations

import asyncio
from typing import cast

_BUFFERED = 64 * 1024
"""Bytes that wait for one end before the other is not read any more."""


class End(asyncio.Protocol):
    """One end; `other` is set before bytes can come in."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_BUFFERED)

    def data_received(self, data: bytes) -> None:
        if (other := self._open_other()) is not None:
            other.write(data)

    def pause_writing(self) -> None:
        if (other := self._open_other()) is not None:
            other.pause_reading()

    def resume_writing(self) -> None:
        if (other := self._open_other()) is not None:
            other.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        other, self.transport = self._open_other(), None
        if other is not None:
            other.close()  # what is under way to it still goes out

    def abort(self) -> None:
        """Close both ends at once."""
        for end in (self, self.other):
            if end is not None and end.transport is not None:
                end.transport.abort()

    def _open_other(self) -> asyncio.Transport | None:
        transport = self.other.transport if self.other is not None else None
        return None if transport is None or transport.is_closing() else transport
