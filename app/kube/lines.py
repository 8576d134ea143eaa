"""Splits a byte stream into lines of any length; no I/O, no limits, no decoding."""

from __future__ import annotations

from collections.abc import Iterator


class LineSplitter:
    """Feed chunks, get the lines that they complete (without the newline, empty lines left out)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        # Parts of an unfinished line are joined once, when it ends: a long line costs linear time.
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line = b"".join((*self._parts, chunk[start:end])) if self._parts else chunk[start:end]
            self._parts.clear()
            start = end + 1
            if line.strip():
                yield line
        if start < len(chunk):
            self._parts.append(chunk[start:])

    def rest(self) -> bytes:
        """What came after the last newline, "" at a clean end; the splitter is empty afterwards."""
        rest = b"".join(self._parts)
        self._parts.clear()
        return rest
