"""What the bytes of a connection cost gRPC, by the frames of HTTP/2 (RFC 9113, 4.1). It reads their heads alone.

Bytes of messages are the cheapest: they are copied. Headers are decompressed, and one byte can stand for kilobytes (RFC
7541, 7.3); every frame costs something, however short. On a real gateway 180 MB of headers took 11 seconds of CPU.
"""

from __future__ import annotations

_PREFACE = 24
_HEAD = 9
_OF_HEADERS = frozenset({1, 9})
"""HEADERS and CONTINUATION."""
_HEADER_BYTE = 8
_FRAME = 256


class FrameCosts:
    """Counts one connection from its first byte on. The unit is a byte of a message."""

    def __init__(self) -> None:
        self._left = _PREFACE
        self._price = 1
        self._head = b""

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
                self._left = int.from_bytes(self._head[:3])
                self._price = _HEADER_BYTE if self._head[3] in _OF_HEADERS else 1
                self._head = b""
                cost += _FRAME
        return cost
