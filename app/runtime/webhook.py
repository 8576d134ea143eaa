"""Builds the webhook role: reviews in this process, or in several worker processes behind one port."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import structlog

from app.serving.listener import address, listen
from app.settings.reconciling import Drained, RoleContext, Runnable
from app.settings.source import settings_as
from app.settings.webhook import WebhookSettings

if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans

_log = structlog.get_logger(__name__)


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, WebhookSettings)
    _, warnings = settings.server_context()
    if settings.enable_http2:
        warnings.append("--enable-http2: Berth speaks HTTP/1.1 only")
    for warning in warnings:
        _log.warning(warning)
    first = listen("--port", settings.bind_address, settings.port, shared=settings.workers > 1)
    context.listening |= {"reviews": address(first, "https"), "workers": settings.workers}
    if settings.workers == 1:
        return _serving(settings, first, context.spans(), worker=False)
    port = first.getsockname()[1]
    others = [listen("--port", settings.bind_address, port, shared=True) for _ in range(settings.workers - 1)]
    from app.runtime.workers import Workers  # noqa: PLC0415  one process needs none of it

    workers = Workers(settings, [first, *others], _serving)
    context.metrics = workers.exposition
    return Drained(workers)


def _serving(
    settings: WebhookSettings, listener: socket.socket, spans: Spans | None, *, worker: bool = True
) -> Drained:
    # Imported late: the parent of workers needs none of it, and metrics are kept where the environment says by then.
    from app.runtime.serving import Serving  # noqa: PLC0415

    return Drained(Serving(settings, listener=listener, spans=spans, worker=worker))
