"""Starts the webhook role: one process, or a parent with workers."""

from __future__ import annotations

import asyncio
import socket
import sys

import structlog
import uvloop

from app import logs
from app.runtime.descriptors import raise_limit
from app.runtime.stopping import until_signal
from app.serving.listening import address, listen
from app.serving.tls_options import server_context
from app.settings.webhook import WebhookSettings
from app.tracing.opening import opened_spans

_log = structlog.get_logger(__name__)


def run_webhook(settings: WebhookSettings) -> int:
    """Serve until a signal and return the exit status. Raises UsageError for a mistake of the user."""
    logs.configure(settings.level)
    raise_limit()
    _warn(settings)
    health = listen("--health-check-port", settings.bind_address, settings.health_check_port)
    listeners = [listen("--port", settings.bind_address, settings.port, shared=settings.workers > 1)]
    for _ in range(settings.workers - 1):
        port = listeners[0].getsockname()[1]
        listeners.append(listen("--port", settings.bind_address, port, shared=True))
    _log.info(
        "listening",
        reviews=address(listeners[0], "https"),
        health=address(health, "http"),
        workers=settings.workers,
    )
    try:
        if settings.workers == 1:
            _serve(settings, listener=listeners[0], health=health)
        else:
            from app.runtime.workers import supervise  # noqa: PLC0415

            if not uvloop.run(supervise(settings, listeners=listeners, health=health)):
                _log.warning("stopped before everything was drained")
                return 1
    except asyncio.CancelledError:
        _log.warning("stopped before everything was drained")
        return 1
    finally:
        sys.stderr.flush()
    return 0


def _serve(settings: WebhookSettings, *, listener: socket.socket, health: socket.socket) -> None:
    """Serve in this process."""
    from app.runtime.serving import Serving  # noqa: PLC0415

    with opened_spans("webhook") as spans:
        uvloop.run(until_signal(Serving(settings, listener=listener, health=health, spans=spans).run))


def _warn(settings: WebhookSettings) -> None:
    """Say what of the settings is accepted and has no effect; raises UsageError for TLS choices that are wrong."""
    _, warnings = server_context(
        min_version=settings.tls_min_version,
        ciphers=settings.tls_cipher_suites,
        curves=settings.tls_curve_preferences,
    )
    if settings.enable_http2:
        warnings.append("--enable-http2: Berth speaks HTTP/1.1 only")
    for warning in warnings:
        _log.warning(warning)
