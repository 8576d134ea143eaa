"""The reviews of one webhook process, and its caches.

Draining: every answer asks its client to close, while reviews go on being answered; after `drain_seconds` (the time in
which a cluster stops sending) the listener closes.
"""

from __future__ import annotations

import asyncio
import gc
import math
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from app.admission.application import review_app
from app.admission.heads import CallerTokens
from app.admission.memo import WEBHOOK, Memo
from app.admission.parts import Context, ReviewCaches, chains
from app.admission.server import make_server
from app.errors import UsageError
from app.kube.client import KubeClient
from app.kube.kit import Watches, declare
from app.kube.manifests import ManifestSource
from app.kube.reflector import Reflector, Scope
from app.kube.running import stand, start
from app.kube.transport import connect
from app.kube.walls import standing
from app.registry import WINGS, parts_of
from app.runtime.composing import FLUSH_SECONDS, recorder
from app.runtime.review_log import OwnerEvents, ReviewLog
from app.serving.memory import Budget, trim_heap
from app.serving.metrics import refresh
from app.serving.tls import ServingCertificate
from app.settings.webhook import WebhookSettings

if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans

_log = structlog.get_logger(__name__)

_QUEUE_SECONDS = 5.0
"""A longer time has no effect: an API server waits for at most ten seconds, unless timeoutSeconds says otherwise."""
_LOOK_SECONDS = 0.05


class Serving:
    """Builds everything in the constructor (which raises UsageError), runs it in `run()`.

    A worker inherits the connections that its predecessor had queued: it accepts them when its caches are loaded.
    """

    def __init__(
        self, settings: WebhookSettings, *, listener: socket.socket, spans: Spans | None = None, worker: bool = False
    ) -> None:
        self._settings, self._listener = settings, listener
        self._patience = _QUEUE_SECONDS if worker else 0.0
        self._stopping = False
        self._certificate = ServingCertificate(
            settings.tls_cert_file,
            settings.tls_private_key_file,
            new_context=lambda: settings.server_context()[0],
            client_cas=() if settings.insecure else settings.client_ca,
        )
        self._caches, memo = ReviewCaches(), Memo()
        self._caches.on_changed(memo.clear)
        self._sources = Sources(settings, self._caches)
        # With manifests there is no cluster, so Events cannot be written.
        records_events = settings.events and settings.manifests is None
        self._events = recorder("webhook", lambda: self._caches.client) if records_events else None
        self._log = ReviewLog(
            level=settings.level,
            told=OwnerEvents(self._events) if self._events is not None else None,
            spans=spans,
        )
        self._callers = None if settings.caller_token_file is None else CallerTokens(settings.caller_token_file)
        parts = parts_of(Context(settings, settings.namespace, self._caches, logs=True))
        declare(self._sources.follow)
        self._reviews = make_server(
            review_app(
                chains(parts, namespace=settings.namespace),
                aliases={path: name for wing in WINGS for path, name in wing.paths.items()},
                memos={WEBHOOK: memo},
                finished=self._log.finished,
                deadline=settings.deadline_seconds,
                draining=lambda: self._stopping,
                callers=self._callers,
                # TLS has asked each of them for its certificate.
                proven=not settings.insecure,
            ),
            context=self._certificate.context,
            budget=Budget(settings.undecided_bytes_each, port="reviews"),
            # A review that began must be able to use up its deadline.
            grace_seconds=math.ceil(settings.deadline_seconds) + 2,
        )

    def waiting(self) -> list[str]:
        """What readiness waits for; empty when reviews can be answered well."""
        problem = self._certificate.problem()
        listening = [] if self._reviews.started else ["TLS listener: not started"]
        return listening + ([problem] if problem else []) + self._sources.waiting()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then drain. Raises what a part died of."""
        poll = self._settings.certificate_poll_seconds
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(self._sources.run()),
                    stand(tasks, "certificate", partial(self._certificate.watch, poll_seconds=poll)),
                    stand(tasks, "webhook-look", self._look),
                ]
                if self._callers is not None:
                    background.append(stand(tasks, "callers", partial(self._callers.watch, poll_seconds=poll)))
                events = self._events
                if events is not None:
                    background.append(stand(tasks, "events", events.run))
                reviews = tasks.create_task(self._serve_reviews())
                await stop.wait()
                await self._drain(reviews)
                if events is not None:
                    await events.flush(FLUSH_SECONDS)
                for task in background:
                    task.cancel()
        finally:
            self._log.flush()

    async def _serve_reviews(self) -> None:
        end = time.monotonic() + self._patience
        while self._sources.waiting() and not self._stopping and time.monotonic() < end:  # noqa: ASYNC110  caches have no event
            await asyncio.sleep(_LOOK_SECONDS)
        await self._reviews.serve(sockets=[self._listener])

    async def _drain(self, reviews: asyncio.Task[None]) -> None:
        self._stopping = True
        _log.info("draining", seconds=self._settings.drain_seconds)
        await asyncio.sleep(self._settings.drain_seconds)
        self._reviews.should_exit = True
        await reviews
        _log.info("drained")

    async def _look(self) -> None:
        """Keep the gauge of the certificate's end, and the garbage collector out of what has been loaded."""
        ready = False
        while True:
            before, ready = ready, not self.waiting()
            if ready and not before:
                # Modules and caches stay; collections would walk through them again and again. What a review leaves
                # behind is freed by reference counts, so that collections are for the rare cycle.
                gc.collect()
                trim_heap()
                gc.freeze()
                gc.set_threshold(20_000, 20, 20)
            refresh(self._certificate.not_after)
            await asyncio.sleep(0.25)


class Sources:
    """Fills the caches from a cluster, or from a directory of manifests; `waiting` says what is not ready."""

    def __init__(self, settings: WebhookSettings, caches: ReviewCaches) -> None:
        if settings.manifests is not None and not Path(settings.manifests).is_dir():
            raise UsageError(f"--manifests {settings.manifests}: no such directory")
        self._settings, self._caches = settings, caches
        self._problems: Callable[[], list[str]] = lambda: ["caches: not started"]

    def waiting(self) -> list[str]:
        return self._problems()

    def follow(self, client: KubeClient) -> list[Reflector]:
        """What keeps the caches that the parts have asked for by now."""
        watches = Watches(client)
        scopes = ((Scope(resource, *(only or ())), store) for resource, store, only in self._caches.all)
        return list(dict.fromkeys(watches.follow(scope, store) for scope, store in scopes))

    async def run(self) -> None:
        """Fill the caches and follow every change until cancelled."""
        settings, caches = self._settings, self._caches
        if settings.manifests is not None:
            source = ManifestSource(
                Path(settings.manifests), [(cached.resource.kind, cached.store) for cached in caches.all]
            )
            self._problems = lambda: [] if source.healthy else [source.reason]
            await standing("manifests", source.run)
            return
        async with await connect(kubeconfig=settings.kubeconfig, context=settings.context) as client:
            caches.client = client
            reflectors = self.follow(client)
            # A kind that is not defined has no objects: Berth must not stay unready in a cluster without Multus, for
            # with failurePolicy Fail no Pod could start there. A lookup then asks the API server.
            self._problems = lambda: [
                f"{reflector.resource.plural}: {reflector.reason}"
                for reflector in reflectors
                if not (reflector.healthy or reflector.missing)
            ]
            async with asyncio.TaskGroup() as tasks:
                start(tasks, reflectors)
