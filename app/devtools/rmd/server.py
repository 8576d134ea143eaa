"""The REST API of the daemon over HTTP or TLS, on loopback and in the running event loop."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import structlog
from starlette.types import Receive, Scope, Send

from app.devtools.listening import Listening
from app.devtools.rmd.access import Tls
from app.devtools.rmd.failures import Crash
from app.devtools.rmd.faults import Kind, Trouble
from app.devtools.rmd.handling import Handlers
from app.devtools.rmd.routing import Answer, route, unknown
from app.devtools.rmd.troubles import BEFORE, Connection, give, withhold
from app.devtools.rmd.workloads import Daemon
from app.text import utc_now

log = structlog.get_logger(__name__)
_KEPT = 1000
_NAME = "rmd-stand-in"
"""The daemon sends no header `Server`: who looks at it sees what answers."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that the daemon got; `path` is without the query."""

    method: str
    path: str
    body: bytes
    time: datetime


class Served:
    """A daemon that is served. `url` is without a slash at its end.

    `requests` has the last 1000 requests, in the order of their arrival, also those that were not answered. `counts`
    has the number of all, by method. `troubles` may be changed at any time; of those that hit a request, the first
    counts. For `handlers.barrier` see `Handlers`.
    """

    def __init__(self, daemon: Daemon, tls: Tls | None = None, clock: Callable[[], datetime] | None = None) -> None:
        self.daemon, self.handlers = daemon, Handlers(daemon)
        self.requests: deque[Request] = deque(maxlen=_KEPT)
        self.counts: Counter[str] = Counter()
        self.troubles: list[Trouble] = []
        self.url = ""
        self._tls = tls
        self._clock = clock or utc_now
        self._away_until = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            return
        method, path, body = scope["method"], scope["path"], await _body(receive)
        self.counts[method] += 1
        self.requests.append(Request(method, path, body, self._clock()))
        connection = Connection(scope["state"]["transport"], receive, send)
        trouble, now = self._trouble(method, path, body), asyncio.get_running_loop().time()
        ends = trouble is not None and trouble.kind is Kind.ENDED
        if trouble is not None and ends:
            self.daemon.restart()
            self._away_until = now + trouble.seconds
        if ends or now < self._away_until:
            await connection.cut()
            return
        if trouble is not None and trouble.kind in BEFORE:
            await withhold(trouble, connection)
            return
        try:
            answer = await self._answer(scope, body)
        except Crash:
            await connection.cut()
            return
        await give(trouble, answer, connection)

    def _trouble(self, method: str, path: str, body: bytes) -> Trouble | None:
        for at, trouble in enumerate(self.troubles):
            if trouble.hits(method, path, body):
                if trouble.times is not None:
                    self.troubles[at] = replace(trouble, times=trouble.times - 1)
                return trouble
        return None

    async def _answer(self, scope: Scope, body: bytes) -> Answer:
        method, path = scope["method"], scope["path"]
        if (nothing := unknown(path)) is not None:
            return nothing
        if self._tls is not None:
            refusal = self._tls.refusal(scope["state"]["peer_certificate"], method, path)
            if refusal is not None:
                return refusal
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
        match = route(method, path, headers)
        return match if isinstance(match, Answer) else await self.handlers.answer(match, body)


@asynccontextmanager
async def serve(
    daemon: Daemon, *, address: str = "127.0.0.1", port: int = 0, tls: Tls | None = None
) -> AsyncIterator[Served]:
    """Serve a daemon at a loopback address until the block ends.

    Port 0 takes a free one; OSError is raised where a port is taken. With `tls` there is HTTPS alone. The header
    `Server` of the answers says that a stand-in answers.
    """
    served = Served(daemon, tls)
    context = tls.context() if tls is not None else None
    listening = await Listening.start(served, address, port, context, name=_NAME, headers=[("Server", _NAME)])
    served.url = f"{'https' if tls is not None else 'http'}://{address}:{listening.port}"
    log.info("a stand-in answers as RMD does; it is not RMD", url=served.url)
    try:
        yield served
    finally:
        await listening.stop(at_once=True)


async def _body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)
