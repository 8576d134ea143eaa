"""Fills the webhook's caches from a cluster (list and watch) or from a directory of manifests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from app.admission.parts import Cached, Caches
from app.errors import UsageError
from app.kube.client import KubeClient
from app.kube.manifests import ManifestSource
from app.kube.polling import Poller
from app.kube.reflector import Reflector
from app.kube.transport import connect
from app.settings.webhook import WebhookSettings


class Sources:
    """`run()` keeps the caches true until it is cancelled; `waiting()` says what is not ready."""

    def __init__(self, settings: WebhookSettings, caches: Caches) -> None:
        if settings.manifests is not None and not Path(settings.manifests).is_dir():
            raise UsageError(f"--manifests {settings.manifests}: no such directory")
        self._settings, self._caches = settings, caches
        self._problems: Callable[[], list[str]] = lambda: ["not started"]

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return self._problems()

    async def run(self) -> None:
        """Fill the caches and follow every change until cancelled."""
        if self._settings.manifests is not None:
            await self._run_manifests(self._settings.manifests)
        else:
            await self._run_cluster()

    async def _run_manifests(self, directory: str) -> None:
        source = ManifestSource(Path(directory), {one.resource.kind: one.store for one in self._caches.all})
        self._problems = lambda: [] if source.healthy else [source.reason]
        await source.run()

    async def _run_cluster(self) -> None:
        async with await connect(kubeconfig=self._settings.kubeconfig, context=self._settings.context) as client:
            self._caches.client = client
            feeders = [_Feeder(client, one) for one in self._caches.all]
            self._problems = lambda: [problem for feeder in feeders if (problem := feeder.problem())]
            async with asyncio.TaskGroup() as tasks:
                for feeder in feeders:
                    for part in feeder.parts:
                        tasks.create_task(part.run())


class _Feeder:
    """What fills one cache.

    A role may have the right to get one object and no right to list: the role that Network Resources Injector's
    deployment brings is such a role. So one object is polled where it cannot be watched.
    """

    def __init__(self, client: KubeClient, cached: Cached) -> None:
        resource, store, only = cached
        if only is None:
            self._reflector, self._poller = Reflector(client, resource, store), None
        else:
            namespace, name = only
            self._reflector = Reflector(
                client, resource, store, namespace=namespace, field_selector=f"metadata.name={name}"
            )
            self._poller = Poller(client, self._reflector, namespace=namespace, name=name)
        self.parts: list[Reflector | Poller] = [self._reflector, *([self._poller] if self._poller else [])]

    def problem(self) -> str:
        """Why the cache cannot be relied on; "" where it can.

        A kind that is not defined has no objects: Berth must not stay unready in a cluster without Multus, for with
        failurePolicy Fail no Pod could start there. A lookup then asks the API server.
        """
        reflector, poller = self._reflector, self._poller
        if reflector.healthy or reflector.missing or (poller is not None and poller.healthy):
            return ""
        return f"{reflector.resource.plural}: {reflector.reason}"
