"""uvicorn's HTTP connection with the bounds that uvicorn leaves to a proxy: the size of a request's head, and timeouts.

Without them one client could grow a header without end, queue requests without end, or hold connections open that never
carry a request or never take an answer. Bodies are bounded by the endpoint, the number of connections by `accepting`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.serving.listener import ConnectionPool, Slot

HEAD_BYTES = 64 * 1024
"""Request line and headers together; an API server sends less than one thousand bytes."""

HEAD_SECONDS = 10.0
"""From the first byte of a head that came in pieces to its end."""

BODY_SECONDS = 60.0
"""From the end of the head to that of the body, also where the answer was sent already; a review has its deadline."""

ANSWER_SECONDS = 30.0
"""For which a client may leave an answer where it is before the connection is cut."""

PIPELINED = 32
"""Requests of one connection that wait for the answers before theirs. Go's clients send none so."""

LINGER_SECONDS = 1.0

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _TooManyAtOnce(Exception):
    """Ends the parsing of what came in; the parser makes a 400 of it."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request is too large (head: 431) or too slow, and one that sends or takes nothing.

    It says in its `slot` whether it carries a request.
    """

    _phase: Literal["", "head", "body"] = ""
    _head_bytes = 0
    _request_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None
    _refused = False

    def __init__(self, *args: Any, slot: Slot | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._slot = slot if slot is not None else Slot(ConnectionPool(1))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._slot.close = transport.abort
        # The first request may take as long as any later one.
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._slot.release()
        self._enter("")
        self._end_answer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._phase == "head":
            self._bound_head(len(data))
        elif self._phase == "body":
            if self._request_timer is None:
                self._request_timer = self.loop.call_later(BODY_SECONDS, self.transport.close)
        elif self.timeout_keep_alive_task is None and (self.cycle is None or self.cycle.response_complete):
            # The data was the rest of a body that was not read, or empty lines. It had stopped the idle timer.
            self._await_request()

    def on_message_begin(self) -> None:
        self._enter("head")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._enter("body")
        super().on_headers_complete()
        if len(self.pipeline) > PIPELINED:
            raise _TooManyAtOnce

    def on_message_complete(self) -> None:
        self._enter("")
        super().on_message_complete()
        if not self.cycle.response_complete:
            self._slot.busy()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline:
            self._slot.idle()
        if self.transport.is_closing():
            self._bound_answer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._bound_answer()

    def resume_writing(self) -> None:
        self._end_answer()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._bound_answer()

    def _await_request(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _bound_head(self, received: int) -> None:
        """The head did not come in one piece: start its clock, add up its size."""
        self._head_bytes += received
        if self._head_bytes > HEAD_BYTES:
            self._refuse()
        elif self._request_timer is None:
            self._request_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _refuse(self) -> None:
        """Answer, and throw away for a moment what still comes: closed at once, the answer would be reset too."""
        self._refused = True
        self._enter("")
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_TOO_LARGE)
        self._request_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _bound_answer(self) -> None:
        """Drop what is not taken in time; a transport that is closed would wait for it for ever."""
        if self._answer_timer is None and self.transport.get_write_buffer_size():
            self._answer_timer = self.loop.call_later(ANSWER_SECONDS, self.transport.abort)

    def _enter(self, phase: Literal["", "head", "body"]) -> None:
        """Note which part of a request comes next ("" for none), and stop the timer of the last part."""
        self._phase, self._head_bytes = phase, 0
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _end_answer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None
