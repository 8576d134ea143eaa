"""Starts a webhook for each cluster of the sandbox, in this process, and writes its certificate and configurations."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from app.certs import files as certificate_files
from app.certs.folder import make
from app.certs.issuing import serving_names
from app.errors import BerthError
from app.kube.client import KubeClient
from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.registration.objects import Terms, isolation_webhooks, objects_to, pods_to
from app.registry import settings_of
from app.runtime.manager import Manager
from app.runtime.serving import Serving
from app.serving.listener import bind
from app.settings.reconciling import Drained
from app.settings.source import settings_as
from app.settings.webhook import WebhookSettings
from app.wire import JSON

_START_SECONDS = 60


class Webhooks:
    """The webhooks of the sandbox share one certificate, in `webhook/` of its directory."""

    def __init__(self, directory: Path, *, log_level: str) -> None:
        self._directory = directory / "webhook"
        self._log_level = log_level
        names = serving_names(dns=("localhost",), addresses=("127.0.0.1",))
        files = make({}, names=names, now=datetime.now(UTC), days=30)
        certificate_files.write_files(self._directory, files)
        self._bundle = base64.b64encode(files["ca.crt"]).decode()

    async def start(
        self, kubeconfig: Path, *, infra: bool, tasks: asyncio.TaskGroup, stop: asyncio.Event, cluster: str
    ) -> tuple[int, int]:
        """Start one and wait until it is ready; returns its port and its health port."""
        listener, health = bind("127.0.0.1", 0), bind("127.0.0.1", 0)
        settings = settings_of("webhook").load(
            {
                "kubeconfig": str(kubeconfig),
                "insecure": True,
                "tls_cert_file": str(self._directory / "tls.crt"),
                "tls_private_key_file": str(self._directory / "tls.key"),
                "drain_seconds": 0.0,
                "confine_tenants": infra,
                "log_level": self._log_level,
            },
            environment=False,
        )
        serving = Drained(Serving(settings_as(settings, WebhookSettings), listener=listener))
        manager = Manager(serving, role="webhook", health=health)
        tasks.create_task(manager.run(stop))
        await until_ready(manager.waiting, f"{cluster}: the webhook")
        return listener.getsockname()[1], health.getsockname()[1]

    async def register(self, client: KubeClient, *, port: int, infra: bool) -> None:
        """Have the API server call the webhook on this port; in the infra cluster for what tenants run there, too."""

        def calling(path: str) -> JSON:
            return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": self._bundle}

        mutating = pods_to(calling("/mutate"), name="berth", webhook="mutate.berth.dev", terms=Terms())
        validating = objects_to(calling("/validate"), name="berth", webhook="validate.berth.dev", terms=Terms())
        if infra:
            validating["webhooks"] += isolation_webhooks(validating["webhooks"][0], exempt=Terms().exempt)
        await client.apply(MUTATING_WEBHOOKS, "berth", mutating)
        await client.apply(VALIDATING_WEBHOOKS, "berth", validating)


async def until_ready(waiting: Callable[[], list[str]], what: str) -> None:
    """Wait until nothing is waited for; raises BerthError that says what still is after a minute."""
    try:
        async with asyncio.timeout(_START_SECONDS):
            while waiting():  # noqa: ASYNC110  readiness is a question, not an event
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise BerthError(f"{what} is not ready: {'; '.join(waiting())}") from None
