"""The server under every application of Berth: uvicorn with bounds, which answers ordinary reviews itself.

A connection answers ordinary reviews as soon as they have come: without scope, task and messages of ASGI. A review is
ordinary where its head is (`heads`), nothing else is under way on the connection, and the decision need not wait. The
bytes of everything else go to uvicorn, which answers with the same endpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from starlette.types import ASGIApp

import app.serving.metrics  # noqa: F401  what the budgets of ports hold is published
from app.admission.body import GONE
from app.admission.connection import NO_ROOM, BoundedProtocol
from app.admission.endpoint import JSON_TYPE, ReviewEndpoint, Waiting, in_flight
from app.admission.heads import Head, find_head
from app.errors import BadReview, Overloaded
from app.serving.asgi import HIGH_WATER_LIMIT, STATUS_LINE, Config, Server
from app.serving.listener import CONNECTIONS, ConnectionPool, Listener, Slot, allowed_connections
from app.serving.memory import Budget, Holding

KEEP_ALIVE = 120
"""Seconds an idle connection is kept: longer than the 90 s of the API server's own pool, which then closes first."""
HOLD_SECONDS = 0.05
"""For which the rest of a review is waited for here; after that uvicorn waits."""


class Answering:
    """An application whose `endpoints`, by path, its server may ask for a decision without a task for each request."""

    endpoints: Mapping[str, ReviewEndpoint]


class _Server(Server):
    """uvicorn behind our own `Listener`, which bounds connections, and without signal handlers."""

    def __init__(self, config: Config, *, budget: Budget | None, connections: int) -> None:
        super().__init__(config)
        self._budget, self._connections = budget, connections

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        pool = ConnectionPool(allowed_connections(self._connections), budget=self._budget)

        app = self.config.app
        kind = partial(AnsweringProtocol, endpoints=app.endpoints) if isinstance(app, Answering) else BoundedProtocol

        def protocol(slot: Slot) -> BoundedProtocol:
            return kind(config=self.config, server_state=self.server_state, app_state=self.lifespan.state, slot=slot)

        context, backlog = self.config.ssl, self.config.backlog
        servers = [Listener(listener, pool, protocol, context=context, backlog=backlog) for listener in sockets or ()]
        self.servers = servers  # type: ignore[assignment]  # uvicorn closes them and waits for them
        self.started = True


def make_server(
    app: ASGIApp,
    *,
    context: ssl.SSLContext | None = None,
    grace_seconds: int = 10,
    budget: Budget | None = None,
    connections: int = CONNECTIONS,
) -> Server:
    """A server for `app`, over TLS where a context is given; `serve(sockets=[…])` runs it until `should_exit`.

    `budget` bounds the bytes that its requests hold, where it is not that of any port.
    """
    config = Config(
        app,
        http=BoundedProtocol,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # The API server is asked for nothing but its certificate; forwarded addresses mean nothing here.
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=grace_seconds,
        ssl_context_factory=(lambda _config, _default: context) if context is not None else None,
    )
    return _Server(config, budget=budget, connections=connections)


class AnsweringProtocol(BoundedProtocol):
    """Has the `endpoints` by path."""

    _held: _Held | None = None
    _answered = 0.0

    def __init__(self, *args: Any, endpoints: Mapping[str, ReviewEndpoint], **options: Any) -> None:
        super().__init__(*args, **options)
        self._endpoints = endpoints

    def data_received(self, data: bytes) -> None:
        if self._held is not None:
            data = self._held.data + data
        elif not self._is_free():
            super().data_received(data)
            return
        ordinary = find_head(data)
        endpoint = self._endpoints.get(ordinary[0].path) if ordinary is not None else None
        if ordinary is None or endpoint is None or endpoint.draining():
            self._pass_on(data)
            return
        head, begin, end = ordinary
        if len(data) > end or end - begin > min(HIGH_WATER_LIMIT, endpoint.body_limit):
            self._pass_on(data)
        elif len(data) == end:
            self._answer(endpoint, head, data, begin)
        else:
            self._hold(endpoint, head, data, begin, end)

    def connection_lost(self, exc: Exception | None) -> None:
        held = self._held
        if held is not None:
            self._let_go()
            held.endpoint.lose(held.data[held.begin :], BadReview(GONE), since=held.since, headers=held.head.headers)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        self._stop_holding()
        super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection. Answers given here leave the timer alone: it starts again for what is left."""
        left = self._answered + self.timeout_keep_alive - self.loop.time()
        if self._held is not None:
            left = max(left, HOLD_SECONDS)
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def _is_free(self) -> bool:
        """Whether the parser is between two requests, and the last of them has its answer."""
        cycle = self.cycle
        return not (
            self._phase
            or self._refused
            or (cycle is not None and not cycle.response_complete)
            or self.flow.write_paused
            or self.transport.is_closing()
        )

    def _answer(self, endpoint: ReviewEndpoint, head: Head, data: bytes, begin: int) -> None:
        since = self._let_go()
        answer = endpoint.decide(data[begin:])
        if isinstance(answer, Waiting):
            self._feed(data, partial(endpoint, since=since, waiting=answer))
            return
        lines = _lines(answer.status, tuple(self.server_state.default_headers))
        self.transport.write(b"%b%d\r\n\r\n%b" % (lines, len(answer.payload), answer.payload))
        self.server_state.total_requests += 1
        self._slot.served()
        self._answered = self.loop.time()
        endpoint.report(answer, since=since, headers=head.headers)

    def _pass_on(self, data: bytes) -> None:
        """Leave these bytes to uvicorn; they are more than one request, or less, or another one."""
        held = self._held
        # `app` is that of all requests in these bytes.
        whole = held is not None and len(data) <= held.end
        self._feed(data, partial(held.endpoint, since=self._let_go()) if held is not None and whole else self.app)

    def _feed(self, data: bytes, app: ASGIApp) -> None:
        self._let_go()
        usual, self.app = self.app, app
        try:
            super().data_received(data)
        finally:
            self.app = usual

    def _hold(self, endpoint: ReviewEndpoint, head: Head, data: bytes, begin: int, end: int) -> None:
        """Keep what has come of a review."""
        if self._held is not None:
            self._held.data = data
            return
        in_flight[endpoint.name] += 1
        timer = self.loop.call_later(HOLD_SECONDS, self._stop_holding)
        room = self._hold_bytes(self._give_up)
        room.take(end)
        self._held = _Held(endpoint, head, data, begin, end, time.perf_counter(), timer, room)

    def _give_up(self) -> None:
        """There is no room any more for the review that is held."""
        held = self._held
        if held is not None:
            self._let_go()
            error = Overloaded("too many bytes of reviews are under way")
            held.endpoint.lose(held.data[held.begin :], error, since=held.since, headers=held.head.headers)
            self._refuse(NO_ROOM)

    def _stop_holding(self) -> None:
        if self._held is not None:
            self._pass_on(self._held.data)

    def _let_go(self) -> float:
        """When the review began that is held, or that begins now."""
        held, self._held = self._held, None
        if held is None:
            return time.perf_counter()
        in_flight[held.endpoint.name] -= 1
        held.timer.cancel()
        held.room.release()
        return held.since


@dataclass(slots=True)
class _Held:
    """A review of which the rest is to come: its body begins and ends at these bytes of the `data`."""

    endpoint: ReviewEndpoint
    head: Head
    data: bytes
    begin: int
    end: int
    since: float
    timer: asyncio.TimerHandle
    room: Holding


@lru_cache(maxsize=16)
def _lines(status: int, defaults: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """The head of an answer up to the number that is the length of the body."""
    headers = (*defaults, JSON_TYPE, (b"content-length", b""))
    return (STATUS_LINE[status] + b"".join(b"%b: %b\r\n" % header for header in headers)).removesuffix(b"\r\n")
