"""The FastAPI applications (reviews over TLS; health and metrics over plain HTTP) and the server under them."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

import app.serving.metrics  # noqa: F401  what the budgets of ports hold is published
from app.admission.answering import AnsweringProtocol
from app.admission.callers import CallerTokens, split_path
from app.admission.chain import Chain
from app.admission.connection import BoundedProtocol
from app.admission.endpoint import ReviewEndpoint
from app.admission.memo import Memo
from app.admission.metrics import create_series
from app.lean import deferred_models
from app.serving.listener import CONNECTIONS, Listener, allowed_connections
from app.serving.memory import Budget
from app.serving.pool import ConnectionPool, Slot

with deferred_models():  # those of an OpenAPI document, which is never made
    from fastapi import FastAPI, Response
    from fastapi.responses import JSONResponse

KEEP_ALIVE = 120
"""Seconds an idle connection is kept: longer than the 90 s of the API server's own pool, which then closes first."""


class ReviewApp:
    """The application on the TLS port: the endpoints by path, FastAPI for other paths.

    Callers that show one of the `callers`' tokens have the `proven` endpoints. A wrong token has no effect, so that a
    token can be changed while Pods are created.
    Inside FastAPI its middleware would cost a review as much as its decision does.
    """

    def __init__(
        self,
        endpoints: Mapping[str, ReviewEndpoint],
        proven: Mapping[str, ReviewEndpoint] = MappingProxyType({}),
        callers: CallerTokens | None = None,
    ) -> None:
        self.endpoints, self._proven, self._callers = endpoints, proven, callers
        self._rest = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoint(scope) if scope["type"] == "http" else None
        await (self._rest if endpoint is None else endpoint)(scope, receive, send)

    def _endpoint(self, scope: Scope) -> ReviewEndpoint | None:
        path, token = split_path(scope["path"])
        proven = self._callers is not None and self._callers.proves(token, scope["headers"])
        return (self._proven if proven else self.endpoints).get(path)


def review_app(
    chains: Mapping[str, Chain],
    *,
    aliases: Mapping[str, str] = MappingProxyType({}),
    memos: Mapping[str, Memo] = MappingProxyType({}),
    callers: CallerTokens | None = None,
    **options: Any,
) -> ReviewApp:
    """An endpoint with these options for each chain, and with the memo of its name, where there is one.

    `aliases` are other paths of endpoints. With `callers` each has a twin for those that are proven.
    """
    create_series(tuple(chains))

    def endpoints(**further: Any) -> dict[str, ReviewEndpoint]:
        made = {
            f"/{name}": ReviewEndpoint(name, chain, memo=memos.get(name), **(options | further))
            for name, chain in chains.items()
        }
        return made | {f"/{alias}": made[f"/{name}"] for alias, name in aliases.items()}

    return ReviewApp(endpoints(), endpoints(proven=True) if callers is not None else {}, callers)


Exposition = tuple[bytes, str]
"""The text of all metrics, and its content type."""


def health_app(
    *,
    readiness: Callable[[], list[str]],
    metrics: Callable[[], Exposition | Awaitable[Exposition]],
    hung: Callable[[], str] = lambda: "",
) -> FastAPI:
    """The application on the plain port.

    `readiness()` lists what is not ready, empty when all is; `hung()` says what only a restart fixes, "" for nothing.
    """
    api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @api.get("/livez")
    @api.get("/healthz")
    async def healthz() -> Response:
        fault = hung()
        return Response(fault or "ok", status_code=503 if fault else 200)

    @api.get("/readyz")
    async def readyz() -> Response:
        missing = readiness()
        return JSONResponse({"ready": not missing, "waitingFor": missing}, status_code=503 if missing else 200)

    @api.get("/metrics")
    async def exposition() -> Response:
        found = metrics()
        body, content_type = found if isinstance(found, tuple) else await found
        return Response(body, media_type=content_type)

    return api


class _Server(uvicorn.Server):
    """uvicorn behind our own `Listener`, which bounds connections, and without signal handlers."""

    def __init__(self, config: uvicorn.Config, *, budget: Budget | None, connections: int) -> None:
        super().__init__(config)
        self._budget, self._connections = budget, connections

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        pool = ConnectionPool(allowed_connections(self._connections), budget=self._budget)

        app = self.config.app
        kind = partial(AnsweringProtocol, endpoints=app.endpoints) if isinstance(app, ReviewApp) else BoundedProtocol

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
) -> uvicorn.Server:
    """A server for `app`, over TLS where a context is given; `serve(sockets=[…])` runs it until `should_exit`.

    `budget` bounds the bytes that its requests hold, where it is not that of any port.
    """
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
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=grace_seconds,
        ssl_context_factory=(lambda _config, _default: context) if context is not None else None,
    )
    return _Server(config, budget=budget, connections=connections)
