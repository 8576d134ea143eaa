"""The webhook of a cluster of the sandbox, at a port of its own choice."""

from __future__ import annotations

from collections.abc import Mapping

from app.devtools.clusters.parts import Parts
from app.registry import settings_of
from app.runtime.manager import Manager
from app.runtime.serving import Serving
from app.serving.listener import bind
from app.settings.reconciling import Drained
from app.settings.source import settings_as
from app.settings.webhook import WebhookSettings


async def start_webhook(parts: Parts, settings: Mapping[str, object], *, host: str, where: str) -> tuple[int, int]:
    """Start it with these settings and wait until it is ready; returns its port and its health port."""
    # Both are bound here: another process may take a port that was only found free.
    listener, health = bind(host, 0), bind(host, 0)
    loaded = settings_as(settings_of("webhook").load(dict(settings), environment=False), WebhookSettings)
    manager = Manager(Drained(Serving(loaded, listener=listener)), role="webhook", health=health)
    await parts.serve(manager, what=f"{where}: the webhook")
    return listener.getsockname()[1], health.getsockname()[1]
