"""One webhook process: health, then reviews, then caches; stopped in the reverse order, after draining.

Draining: on the first signal readiness turns false and every answer asks its client to close, while reviews go
on being answered; after `drain_seconds` (the time in which a cluster stops sending) the listeners close.
"""

from __future__ import annotations

import asyncio
import gc
import math
import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
import uvicorn

from app.admission.endpoint import ReviewEndpoint
from app.admission.metrics import create_series
from app.admission.parts import WEBHOOKS, Caches, Context, chains
from app.admission.server import ReviewApp, health_app, make_server
from app.certs.metrics import refresh
from app.errors import BerthError
from app.kube.metrics import create_watch_series
from app.metrics import describe, exposition, publish
from app.registry import parts_of
from app.runtime.events import Denials, finish, recorder
from app.runtime.failures import first_of
from app.runtime.review_log import ReviewLog, measure_lag
from app.runtime.sources import Sources
from app.serving.tls import ServingCertificate
from app.serving.tls_options import server_context
from app.settings.webhook import WebhookSettings

if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans

_log = structlog.get_logger(__name__)

_QUEUE_SECONDS = 5.0
"""A longer time has no effect: an API server waits for at most ten seconds, unless timeoutSeconds says otherwise."""
_LOOK_SECONDS = 0.05


class Serving:
    """Builds everything in the constructor (which raises UsageError), runs it in `run()`."""

    def __init__(
        self,
        settings: WebhookSettings,
        *,
        listener: socket.socket,
        health: socket.socket | None,
        report: Callable[[list[str]], None] = lambda _waiting: None,
        spans: Spans | None = None,
    ) -> None:
        self._settings = settings
        self._listener, self._health = listener, health
        self._report = report
        self._stopping = False
        self._certificate = serving_certificate(settings)
        self._caches = Caches()
        self._sources = Sources(settings, self._caches)
        # With manifests there is no cluster, so Events cannot be written.
        wanted = settings.events and settings.manifests is None
        self._events = recorder("webhook", lambda: self._caches.client) if wanted else None
        self._log = ReviewLog(
            level=settings.level,
            denied=Denials(self._events) if self._events is not None else None,
            spans=spans,
        )
        create_series(WEBHOOKS)
        describe("webhook")
        endpoints = self._endpoints()
        create_watch_series(tuple(one.resource.kind for one in self._caches.all))
        self._reviews = make_server(
            ReviewApp(endpoints),
            context=self._certificate.context,
            # A review that began must be able to use up its deadline.
            grace_seconds=math.ceil(settings.deadline_seconds) + 2,
        )

    def waiting(self) -> list[str]:
        """What readiness waits for; empty when reviews can be answered well."""
        if self._stopping:
            return ["stopping"]
        problem = self._certificate.problem()
        listening = [] if self._reviews.started else ["TLS listener: not started"]
        return listening + ([problem] if problem else []) + self._sources.waiting()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then drain. Raises what a part died of."""
        health = self._health_server()
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(self._sources.run()),
                    tasks.create_task(self._certificate.watch(poll_seconds=self._settings.certificate_poll_seconds)),
                    tasks.create_task(self._report_readiness()),
                    tasks.create_task(measure_lag()),
                ]
                events = self._events
                writing = tasks.create_task(events.run()) if events is not None else None
                if health is not None and self._health is not None:
                    tasks.create_task(health.serve(sockets=[self._health]))
                reviews = tasks.create_task(self._serve_reviews())
                await stop.wait()
                await self._drain(reviews)
                if events is not None and writing is not None:
                    await finish(events, writing)
                for task in background:
                    task.cancel()
                if health is not None:
                    health.should_exit = True
        except* BerthError as group:
            raise first_of(group) from None
        finally:
            self._log.flush()

    async def _serve_reviews(self) -> None:
        """Accept connections. A worker first waits a while for its caches: its predecessor's connections are queued."""
        end = time.monotonic() + (_QUEUE_SECONDS if self._health is None else 0.0)
        while self._sources.waiting() and not self._stopping and time.monotonic() < end:  # noqa: ASYNC110  caches have no event
            await asyncio.sleep(_LOOK_SECONDS)
        await self._reviews.serve(sockets=[self._listener])

    async def _drain(self, reviews: asyncio.Task[None]) -> None:
        self._stopping = True
        self._report(self.waiting())
        _log.info("draining", seconds=self._settings.drain_seconds)
        await asyncio.sleep(self._settings.drain_seconds)
        self._reviews.should_exit = True
        await reviews
        _log.info("drained")

    async def _report_readiness(self) -> None:
        """Log each change of readiness, tell the parent, and keep the gauges that are ages and dates."""
        known: list[str] | None = None
        while True:
            waiting = self.waiting()
            if waiting != known:
                if not waiting:
                    _leave_out_of_collections()
                _log.info("ready" if not waiting else "not ready", waiting_for=waiting)
                known = waiting
            self._report(waiting)
            self._log.flush()
            publish()
            refresh(self._certificate.not_after)
            await asyncio.sleep(0.25)

    def _health_server(self) -> uvicorn.Server | None:
        if self._health is None:
            return None
        app = health_app(readiness=self.waiting, metrics=self._exposition)
        return make_server(app, grace_seconds=1)

    def _exposition(self) -> tuple[bytes, str]:
        self._log.flush()
        return exposition()

    def _endpoints(self) -> dict[str, ReviewEndpoint]:
        settings = self._settings
        parts = parts_of(Context(settings, settings.namespace, self._caches, logs=True))
        return {
            f"/{name}": ReviewEndpoint(
                name,
                chain,
                finished=self._log.finished,
                deadline=settings.deadline_seconds,
                draining=lambda: self._stopping,
            )
            for name, chain in chains(parts, namespace=settings.namespace).items()
        }


def serving_certificate(settings: WebhookSettings) -> ServingCertificate:
    """The certificate of these settings; raises UsageError where it cannot be served."""

    def new_context() -> ssl.SSLContext:
        return server_context(
            min_version=settings.tls_min_version,
            ciphers=settings.tls_cipher_suites,
            curves=settings.tls_curve_preferences,
            require_client_certificate=not settings.insecure,
        )[0]

    return ServingCertificate(
        settings.tls_cert_file,
        settings.tls_private_key_file,
        new_context=new_context,
        client_cas=() if settings.insecure else settings.client_ca,
    )


def _leave_out_of_collections() -> None:
    """Tell the garbage collector what will stay: modules and caches, which it would walk through again and again.

    What a review leaves behind is freed by reference counts; collections are for the rare cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
