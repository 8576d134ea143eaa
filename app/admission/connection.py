"""uvicorn's HTTP connection with the bounds that uvicorn leaves to a proxy: the size of a request's head, and timeouts.

Without them one client could grow a header without end, queue requests without end, or hold connections open that never
carry a request or never take an answer. What a request holds in memory counts in the budget of its port, and the
number of connections is bounded there too (`app.serving`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Literal

from starlette.types import ASGIApp, Receive, Scope, Send

from app.admission.body import Body
from app.serving.asgi import HttpToolsProtocol, RequestResponseCycle
from app.serving.listener import ConnectionPool, Slot
from app.serving.memory import Client, Holding

HEAD_BYTES = 64 * 1024
"""Request line and headers together; an API server sends less than one thousand bytes."""

HEAD_FIELDS = 100
"""Headers of a request, as most servers have it: parsed, one of four bytes takes more than a hundred."""

HEAD_SECONDS = 10.0
"""From the first byte of a head that came in pieces to its end."""

BODY_SECONDS = 60.0
"""From the end of the head to that of the body, also where the answer was sent already; a review has its deadline."""

ANSWER_SECONDS = 30.0
"""For which a client may leave an answer where it is before the connection is cut."""

PIPELINED = 32
"""Requests of one connection that wait for the answers before theirs. Go's clients send none so."""

LINGER_SECONDS = 1.0

_UNREAD_BYTES = 16 * 1024
"""Bytes of answers that a client may leave unread before they count in the budget."""

_END = b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large" + _END
NO_ROOM = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1" + _END


class _TooManyAtOnce(Exception):
    """Ends the parsing of what came in; the parser makes a 400 of it."""


class _HeadTooLarge(Exception):
    """The same, but for a 431."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request is too large (head: 431) or too slow, and one that sends or takes nothing.

    It says in its `slot` whether it carries a request, and in the budget there what the request holds.
    """

    _phase: Literal["", "head", "body"] = ""
    _head_bytes = 0
    _parsed_bytes = 0
    _head: Holding | None = None
    _body: Body | None = None
    _unread: Holding | None = None
    _peer: Client | None = None
    _request_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None
    _refused = False
    _too_large = False

    def __init__(self, *args: Any, slot: Slot | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._slot = slot if slot is not None else Slot(ConnectionPool(1))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_UNREAD_BYTES)
        self._slot.close = transport.abort
        # The first request may take as long as any later one.
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._slot.release()
        self._enter("")
        self._end_answer()
        self._unset_keepalive_if_required()
        for cycle, _ in self.pipeline:
            cycle.scope["body"].release()  # type: ignore[typeddict-item]  # set below
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came. The bytes of one head are parsed apart from what follows, so that its size is known."""
        while data and not self._refused and not self.transport.is_closing():
            room = len(data) if self._phase == "body" else HEAD_BYTES - self._head_bytes
            if not room:
                self._refuse(_TOO_LARGE)
                return
            self._parse(data[:room] if room < len(data) else data)
            data = data[room:]

    def _parse(self, data: bytes) -> None:
        before = self._phase
        super().data_received(data)
        if self.transport.is_closing() or self._refused:
            return
        if self._phase == "head":
            # Of a head that began after the end of a body here, the parser has told the size.
            self._bound_head(self._parsed_bytes if before == "body" else len(data))
        elif self._phase == "body":
            if self._request_timer is None:
                self._request_timer = self.loop.call_later(BODY_SECONDS, self.transport.close)
        elif self.timeout_keep_alive_task is None and (self.cycle is None or self.cycle.response_complete):
            # The data was the rest of a body that was not read, or empty lines. It had stopped the idle timer.
            self._await_request()

    def on_message_begin(self) -> None:
        self._enter("head")
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._parsed(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._parsed(len(name) + len(value))
        if len(self.headers) > HEAD_FIELDS:
            self._too_large = True
            raise _HeadTooLarge

    def on_headers_complete(self) -> None:
        self._enter("body")
        super().on_headers_complete()
        self._body = body = Body(self._hold_bytes(partial(self._drop, self.cycle)))
        # For applications that know them.
        self.scope["body"] = body  # type: ignore[typeddict-unknown-key]
        self.scope["tls"] = self.transport.get_extra_info("ssl_object")  # type: ignore[typeddict-unknown-key]
        if len(self.pipeline) > PIPELINED:
            raise _TooManyAtOnce

    def on_body(self, body: bytes) -> None:
        coming = self._body
        if coming is not None and not self.cycle.response_complete:
            coming.arrived(len(body))
            if self.pipeline and not coming.keeping:
                return  # nothing reads it yet
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._enter("")
        super().on_message_complete()
        if self._body is not None:
            self._body.came()
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

    def send_400_response(self, msg: str) -> None:
        if self._too_large:
            self._refuse(_TOO_LARGE)
        else:
            super().send_400_response(msg)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        super()._start_asgi_task(cycle, partial(_released, app))

    def _hold_bytes(self, give_way: Any) -> Holding:
        """A holding of this connection's client."""
        if self._peer is None:
            tls = self.transport.get_extra_info("ssl_object")
            # Where a certificate is asked for, the handshake fails with one that none of our CAs has signed.
            proven = tls is not None and bool(tls.getpeercert(binary_form=True))
            self._peer = Client(self.client[0] if self.client else "", proven)
        return self._slot.budget.hold(self._peer, give_way)

    def _drop(self, cycle: RequestResponseCycle) -> None:
        """Keep no more of the body of this request."""
        cycle.scope["body"].drop()  # type: ignore[typeddict-item]  # as above
        cycle.body = bytearray()

    def _await_request(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _parsed(self, size: int) -> None:
        self._parsed_bytes += size
        if self._parsed_bytes > HEAD_BYTES:
            self._too_large = True
            raise _HeadTooLarge

    def _bound_head(self, received: int) -> None:
        """The head did not come in one piece: start its clock, add up its size."""
        self._head_bytes += received
        if self._request_timer is None:
            self._request_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)
        if self._head is None:
            self._head = self._hold_bytes(self.transport.abort)
        self._head.take(received)

    def _refuse(self, answer: bytes) -> None:
        """Answer, and throw away for a moment what still comes: closed at once, the answer would be reset too."""
        self._refused = True
        self._enter("")
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(answer)
        self._request_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _bound_answer(self) -> None:
        """Drop what is not taken in time, or does not fit; a closed transport would wait for it for ever."""
        size = self.transport.get_write_buffer_size()
        if self._answer_timer is None and size:
            self._answer_timer = self.loop.call_later(ANSWER_SECONDS, self.transport.abort)
            self._unread = self._hold_bytes(self.transport.abort)
            self._unread.take(size)

    def _enter(self, phase: Literal["", "head", "body"]) -> None:
        """Note which part of a request comes next ("" for none), and stop the timer of the last part."""
        self._phase, self._head_bytes, self._parsed_bytes = phase, 0, 0
        if self._head is not None:
            self._head.release()
            self._head = None
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _end_answer(self) -> None:
        if self._unread is not None:
            self._unread.release()
            self._unread = None
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None


async def _released(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a request, after which it holds nothing."""
    try:
        await app(scope, receive, send)
    finally:
        scope["body"].release()
