"""What the bytes of a connection cost gRPC, by the frames of HTTP/2 (RFC 9113, 4.1). It reads their heads alone.

Bytes of messages are the cheapest: they are copied. Headers are decompressed, and one byte can stand for kilobytes (RFC
7541, 7.3); every frame costs something, however short. On a real gateway 180 MB of headers took 11 seconds of CPU.
"""

from __future__ import annotations

_PREFACE = 24
_HEAD = 9
_HEADERS, _CONTINUATION = 1, 9
_END_HEADERS = 4
_HEADER_BYTE = 64
_FRAME = 256
MOST_HEADERS = 64 * 1024
"""Bytes of one header block. gRPC takes a quarter of that at most, and keeps what has no end for ever."""


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
        """A frame of this head."""
        self._left, kind = int.from_bytes(head[:3], "big"), head[3]
        self._price = 1
        if kind in (_HEADERS, _CONTINUATION):
            self._price = _HEADER_BYTE
            self._block += _FRAME + self._left
            self.endless = self.endless or self._block > MOST_HEADERS
            if head[4] & _END_HEADERS:
                self._block = 0
