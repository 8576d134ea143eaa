"""Relays bytes between the two ends of a connection that is handed on, with backpressure."""

from __future__ import annotations

import asyncio
from typing import cast

_BUFFERED = 64 * 1024
"""Bytes that wait for one end before the other is not read any more."""
_GOODBYE = 5.0
"""Seconds in which one end takes what is under way to it, when the other is closed."""
ALONE = "no other end"
"""A reason not to read, as `_FULL`: the other end cannot take more."""
_FULL = "the other end is full"


class End(asyncio.Protocol):
    """One end; `other` is set before bytes can come in. It is read while there is no reason to `stop`."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: End | None = None
        self._stopped: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_BUFFERED)

    def data_received(self, data: bytes) -> None:
        if (other := _open(self.other)) is not None:
            other.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.stop(_FULL)

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.go_on(_FULL)

    def connection_lost(self, _error: Exception | None) -> None:
        self.transport = None
        if self.other is not None and (other := _open(self.other)) is not None:
            # What is under way to it still goes out. What it sends has no reader: a flood would cost, and go on.
            self.other.stop(ALONE)
            other.close()
            asyncio.get_running_loop().call_later(_GOODBYE, self.other.abort)

    def stop(self, reason: str) -> None:
        if not self._stopped and (transport := _open(self)) is not None:
            transport.pause_reading()
        self._stopped.add(reason)

    def go_on(self, reason: str) -> None:
        if reason in self._stopped:
            self._stopped.remove(reason)
            if not self._stopped and (transport := _open(self)) is not None:
                transport.resume_reading()

    def abort(self) -> None:
        """Close both ends at once."""
        for end in (self, self.other):
            if end is not None and end.transport is not None:
                end.transport.abort()


def _open(end: End | None) -> asyncio.Transport | None:
    """The transport of this end, while it can be used."""
    return None if end is None or end.transport is None or end.transport.is_closing() else end.transport
