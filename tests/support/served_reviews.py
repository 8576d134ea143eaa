"""The reviews of one wing over TLS, as a webhook serves them, with caches that follow an API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

from app.admission.application import review_app
from app.admission.parts import Context, Parts, ReviewCaches, chains
from app.admission.server import make_server
from app.devtools.clusters.certificates import write_webhook_certificate
from app.runtime.serving import Sources
from app.serving.listener import bind
from app.settings.source import RoleSettings
from app.settings.webhook import WebhookSettings
from tests.support.waiting import eventually


class ServedReviews(NamedTuple):
    """`bundle` is the caBundle of its certificate."""

    port: int
    bundle: str
    part: Parts


@contextlib.asynccontextmanager
async def served_reviews(
    review: Callable[[Context], Parts], settings: RoleSettings, *, kubeconfig: Path, folder: Path, namespace: str
) -> AsyncIterator[ServedReviews]:
    """What `review` makes, as soon as its caches are filled; `namespace` is the webhook's own."""
    bundle = write_webhook_certificate(folder)
    own = WebhookSettings.load({"kubeconfig": str(kubeconfig), "insecure": True}, environment=False)
    caches = ReviewCaches()
    part = review(Context(settings, namespace, caches))
    context, _ = own.server_context()
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    app = review_app(chains([part], namespace=namespace), finished=lambda _outcome: None, proven=True)
    listener, sources, server = bind("127.0.0.1", 0), Sources(own, caches), make_server(app, context=context)
    listener.listen()
    tasks = [asyncio.create_task(sources.run()), asyncio.create_task(server.serve(sockets=[listener]))]
    try:
        await eventually(lambda: server.started and not sources.waiting())
        yield ServedReviews(listener.getsockname()[1], bundle, part)
    finally:
        server.should_exit = True
        await tasks[1]
        tasks[0].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tasks[0]
