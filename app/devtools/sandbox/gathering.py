"""A transport that gathers what is written in one turn of the loop and sends it at once.

An answer is written in two pieces and a watch in many; each would be a TLS record and a system call of its own. What is
gathered is bounded: a large piece goes out at once, so that flow control sees it. Owns no protocol.
"""

from __future__ import annotations

import asyncio
from typing import Any

_MOST = 64 * 1024
"""Bytes after which nothing waits for the end of the turn."""


class GatheringTransport(asyncio.Transport):
    """Stands before `inner` for everything; only writes are delayed, until the loop's next turn at the latest."""

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._inner = inner
        self._loop = loop
        self._pieces: list[bytes | bytearray | memoryview] = []
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= _MOST:
            self._flush()

    def _flush(self) -> None:
        if self._pieces and not self._inner.is_closing():
            self._inner.write(b"".join(self._pieces))
        self._pieces.clear()
        self._size = 0

    def close(self) -> None:
        self._flush()
        self._inner.close()

    def abort(self) -> None:
        self._pieces.clear()
        self._inner.abort()

    def is_closing(self) -> bool:
        return self._inner.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._inner.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._inner.get_protocol()

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    def is_reading(self) -> bool:
        return self._inner.is_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._inner.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._inner.get_write_buffer_size() + self._size

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._inner.get_write_buffer_limits()
