"""As much of HTTP/2 (RFC 9113) and gRPC as it takes to begin messages and not to end them."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from dataclasses import dataclass

from tests.support.tenancy import Door
from tests.support.waiting import PATIENCE

_DATA, _HEADERS, _RST, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK, _END_STREAM, _END_HEADERS = 1, 1, 4
_INITIAL_WINDOW_SIZE = 4
_FRAME = 16_384
_QUIET = 20
"""Round trips without a window that opens, after which none will."""


@dataclass(slots=True)
class _Call:
    window: int
    sent: int = 0


class HalfSent:
    """One connection with `calls` calls of a method, each of which withholds the last byte of a message of `size`.

    It sends whatever flow control lets it, of `message` where one is given. `ended` counts the calls that the server ended.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, path: str, calls: int, message: bytes
    ) -> None:
        self._reader, self._writer = reader, writer
        self._content = struct.pack(">BI", 0, len(message)) + message
        self._window = self._first = 65_535
        self._answered = -1  # the first settings are acknowledged as well
        self.ended = 0
        self.closed = False
        self._writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self._frame(_SETTINGS, 0, 0, b"")
        headers = {":method": "POST", ":scheme": "https", ":path": path, ":authority": "localhost"}
        headers |= {"content-type": "application/grpc", "te": "trailers"}
        self._calls = {stream: _Call(window=self._first) for stream in range(1, 2 * calls, 2)}
        for stream in self._calls:
            self._frame(_HEADERS, _END_HEADERS, stream, b"".join(_literal(*item) for item in headers.items()))

    @classmethod
    async def begin(
        cls, door: Door, tenant: str, *, path: str, calls: int, size: int = 0, message: bytes = b""
    ) -> HalfSent:
        reader, writer = await door.connection(door.pki.tenant(tenant))
        return cls(reader, writer, path=path, calls=calls, message=message or b"\x12" * size)

    @property
    def sent(self) -> int:
        """Bytes of the messages of calls that the server has not ended."""
        return sum(call.sent for call in self._calls.values())

    async def send_all_it_can(self) -> None:
        """Return when the server has let nothing more in for a while."""
        quiet = 0
        while quiet < _QUIET and not self.closed:
            before = self.sent
            self._send()
            await self._round_trip()
            quiet = quiet + 1 if self.sent == before else 0

    def complete(self) -> None:
        """End every call's request, and take nothing of what comes back."""
        for stream in self._calls:
            self._frame(_DATA, _END_STREAM, stream, self._content[-1:])

    async def closed_by_server(self) -> None:
        """Take what is on its way; return when there is no more."""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                while await self._reader.read(65_536):
                    pass

    async def end(self) -> None:
        self._writer.close()

    def _send(self) -> None:
        for stream, call in self._calls.items():
            left = len(self._content) - 1 - call.sent
            while (size := min(left, call.window, self._window, _FRAME)) > 0:
                self._frame(_DATA, 0, stream, self._content[call.sent : call.sent + size])
                call.sent += size
                left -= size
                call.window -= size
                self._window -= size

    async def _round_trip(self) -> None:
        """Settings are acknowledged when everything before them was taken in; pings are too few for this."""
        expected = self._answered + 1
        self._frame(_SETTINGS, 0, 0, b"")
        try:
            await self._writer.drain()
            while self._answered < expected:
                length, kind, flags, stream = struct.unpack(">HxBBI", _reordered(await self._reader.readexactly(9)))
                self._take(kind, flags, stream, await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed = True

    def _take(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == _SETTINGS and flags & _ACK:
            self._answered += 1
        elif kind == _PING and not flags & _ACK:
            self._frame(_PING, _ACK, 0, content)
        elif kind == _SETTINGS:
            self._settle(dict(struct.iter_unpack(">HI", content)))
        elif kind == _WINDOW_UPDATE:
            more = struct.unpack(">I", content)[0]
            if stream == 0:
                self._window += more
            elif stream in self._calls:
                self._calls[stream].window += more
        elif (kind == _RST or flags & _END_STREAM) and stream in self._calls:
            del self._calls[stream]
            self.ended += 1

    def _settle(self, settings: dict[int, int]) -> None:
        first = settings.get(_INITIAL_WINDOW_SIZE, self._first)
        for call in self._calls.values():
            call.window += first - self._first
        self._first = first
        self._frame(_SETTINGS, _ACK, 0, b"")

    def _frame(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        self._writer.write(struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content)


def _reordered(head: bytes) -> bytes:
    """The head of a frame, whose length has three bytes, as struct can read it; no frame here has over 64 KiB."""
    return head[1:3] + b"\0" + head[3:]


def _literal(name: str, value: str) -> bytes:
    """A header that no table remembers (RFC 7541, 6.2.2)."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
