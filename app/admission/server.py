"""The FastAPI applications (reviews over TLS; health, readiness and metrics over plain HTTP) and the server under them.

uvicorn serves both in one event loop. Signals belong to the runtime, which drains before it stops.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from app.admission.connection import BoundedProtocol
from app.admission.endpoint import Receive, ReviewEndpoint, Scope, Send
from app.serving.listener import ConnectionPool, Listener, Slot, allowed_connections

KEEP_ALIVE = 120
"""Seconds an idle connection is kept: longer than the 90 s of the API server's own pool, which then closes first."""


ASGIApplication = Callable[[Scope, Receive, Send], Awaitable[None]]


class ReviewApp:
    """The ASGI application on the TLS port: one endpoint a path ("/mutate", "/validate"), FastAPI for whatever else.

    The endpoints stand before FastAPI and not inside it: its middleware costs a review as much as its decision does.
    """

    def __init__(self, endpoints: Mapping[str, ReviewEndpoint]) -> None:
        self._endpoints = dict(endpoints)
        self._rest = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["path"]) if scope["type"] == "http" else None
        if endpoint is not None:
            await endpoint(scope, receive, send)
        else:
            await self._rest(scope, receive, send)


def health_app(*, readiness: Callable[[], list[str]], metrics: Callable[[], tuple[bytes, str]]) -> FastAPI:
    """The application on the plain port.

    `readiness()` lists what is not ready, empty when all is; `metrics()` gives the exposition and its content type.
    `/healthz` answers for as long as the event loop runs: it reports only faults that a restart would fix.
    """
    api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @api.get("/healthz")
    async def healthz() -> Response:
        return Response("ok")

    @api.get("/readyz")
    async def readyz() -> Response:
        missing = readiness()
        return JSONResponse({"ready": not missing, "waitingFor": missing}, status_code=503 if missing else 200)

    @api.get("/metrics")
    async def exposition() -> Response:
        body, content_type = metrics()
        return Response(body, media_type=content_type)

    return api


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: two servers share a process, and the runtime decides when to stop.

    Connections come in through our own `Listener`, which bounds them.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        pool = ConnectionPool(allowed_connections())

        def protocol(slot: Slot) -> BoundedProtocol:
            return BoundedProtocol(
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state, slot=slot
            )

        context, backlog = self.config.ssl, self.config.backlog
        servers = [Listener(listener, pool, protocol, context=context, backlog=backlog) for listener in sockets or ()]
        self.servers = servers  # type: ignore[assignment]  # it is told to close and waited for, no more
        self.started = True


def make_server(
    app: ASGIApplication, *, context: ssl.SSLContext | None = None, grace_seconds: int = 10, backlog: int = 2048
) -> uvicorn.Server:
    """A server for `app`, over TLS where a context is given; `serve(sockets=[…])` runs it until `should_exit`."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # The API server is asked for nothing but its certificate; forwarded addresses mean nothing here.
        proxy_headers=False,
        backlog=backlog,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=grace_seconds,
        ssl_context_factory=(lambda _config, _default: context) if context is not None else None,
    )
    return _Server(config)
