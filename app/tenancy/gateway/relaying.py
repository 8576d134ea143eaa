"""Relays bytes between the two ends of a connection with backpressure, and says what they cost gRPC.

The cost comes from the frames of HTTP/2 (RFC 9113, 4.1), of which only the heads are read. Bytes of messages are the
cheapest: they are copied. Headers are decompressed, and one byte can stand for kilobytes (RFC 7541, 7.3); every frame
costs something, however short. On a real gateway 180 MB of headers took 11 seconds of CPU.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

_BUFFERED = 64 * 1024
"""Bytes that wait for one end before the other is not read any more."""
_FLUSH_SECONDS = 5.0
"""Seconds in which one end takes what is under way to it, when the other is closed."""
ALONE = "no other end"
"""A reason not to read, as `_FULL`: the other end cannot take more."""
_FULL = "the other end is full"
_PREFACE = 24
_HEAD = 9
_HEADERS, _CONTINUATION = 1, 9
_END_HEADERS = 4
_HEADER_BYTE = 64
_FRAME = 256
MOST_HEADERS = 64 * 1024
"""Bytes of one header block. gRPC takes a quarter of that at most, and keeps a block without an end."""


class End(asyncio.Protocol):
    """One end; `other` is set before bytes can come in. It is read while there is no reason to `stop`.

    `lost` is called when it is closed.
    """

    def __init__(self, lost: Callable[[], object] = lambda: None) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: End | None = None
        self._lost = lost
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
            asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.other.abort)
        self._lost()

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


class FrameCosts:
    """Counts one connection from its first byte on. The unit is a byte of a message.

    `endless` is set by a header block of more than `MOST_HEADERS` bytes: the connection is to be closed.
    """

    def __init__(self) -> None:
        self.endless = False
        self._left = _PREFACE
        self._price = 1
        self._head = b""
        self._block = 0

    def of(self, data: bytes) -> int:
        """The cost of the next bytes."""
        cost, position, end = 0, 0, len(data)
        while position < end:
            if self._left:
                part = min(self._left, end - position)
                self._left -= part
                cost += part * self._price
                position += part
                continue
            part = min(_HEAD - len(self._head), end - position)
            self._head += data[position : position + part]
            position += part
            if len(self._head) == _HEAD:
                cost += _FRAME
                self._begin(self._head)
                self._head = b""
        return cost

    def _begin(self, head: bytes) -> None:
        self._left, kind = int.from_bytes(head[:3], "big"), head[3]
        self._price = 1
        if kind in (_HEADERS, _CONTINUATION):
            self._price = _HEADER_BYTE
            self._block += _FRAME + self._left
            self.endless = self.endless or self._block > MOST_HEADERS
            if head[4] & _END_HEADERS:
                self._block = 0
