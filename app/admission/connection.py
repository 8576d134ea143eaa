"""uvicorn's HTTP connection with the bounds that it leaves to a proxy: the size of a request's head, and its patience.

Without them one client could grow a header without end, or hold connections open that never carry a request. Bodies
are bounded by the endpoint.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024
"""Request line and headers together; an API server sends less than one thousand bytes."""

HEAD_SECONDS = 10.0
"""From the first byte of a head that came in pieces to its end."""

LINGER_SECONDS = 1.0

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request head is too large (431) or too slow, and one that never sends anything."""

    _in_head = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        # The first request may take as long as any later one.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._bound_head(len(data))

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _bound_head(self, received: int) -> None:
        """The head did not come in one piece: start its clock, add up its size."""
        self._head_bytes += received
        if self._head_bytes > HEAD_BYTES:
            self._refuse()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _refuse(self) -> None:
        """Answer, and throw away for a moment what still comes: closed at once, the answer would be reset too."""
        self._refused = True
        self._end_head()
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_TOO_LARGE)
        self._head_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _end_head(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
