"""The two clusters of a test in which every role runs as its own account, with the settings that the chart gives it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from app.devtools.sandbox.standins.namespaces import QuotaCounter
from app.devtools.sandbox.standins.reconciling import Watched
from app.kube.resources import SECRETS
from app.kube.retry import get_or_none
from app.settings.reconciling import Runnable
from tests.support.chart import JSON, NAMESPACE, Render, Server
from tests.support.chart_arguments import settings_of
from tests.support.chart_combinations import AGENT, INFRA, NOTHING, PAGE
from tests.support.waiting import PATIENCE, eventually

# A real API server has no way to the Pods of a Service here: it goes on without them.
UNREACHABLE = {"failurePolicy": "Ignore", "timeoutSeconds": 1}
_HURRIED = {"confineTenants": True, "deadlineSeconds": 0.5}
TERMS: JSON = {
    "webhooks": dict.fromkeys(("pods", "tenantPods", "attachments", "rules", "tenantIsolation"), UNREACHABLE)
}


class Stage:
    """The roles of both clusters, each with the settings of its container and the name of its account."""

    def __init__(
        self, infra: Server, tenant: Server, render: Render, directory: Path, tasks: asyncio.TaskGroup
    ) -> None:
        self.infra, self.tenant, self._directory, self._tasks = infra, tenant, directory, tasks
        webhook = {"args": {"confineTenants": True}} if infra.cluster else TERMS | {"args": _HURRIED}
        self.values = {"infra": INFRA | PAGE | {"webhook": webhook}, "tenant": NOTHING | AGENT}
        self._rendered = {name: render(values) for name, values in self.values.items()}
        self._running: list[asyncio.Task[None]] = []

    def settings(self, role: str, **changes: object) -> Any:
        """As the chart has them, but for what is different outside of a Pod."""
        side, server = ("tenant", self.tenant) if role == "agent" else ("infra", self.infra)
        container = self._rendered[side].container(role)
        account = server.kubeconfig_of(NAMESPACE, f"berth-{role}")
        named = {"namespace": NAMESPACE} if role in ("webhook", "controller") else {}
        update = {"kubeconfig": str(account), "bind_address": "127.0.0.1", **named, **changes}
        return settings_of(role, container).model_copy(update=update)

    async def files_of(self, server: Server, secret: str) -> Path:
        """A Secret as a volume."""
        found = await eventually(lambda: get_or_none(server.client, SECRETS, secret, namespace=NAMESPACE))
        directory = self._directory / secret
        directory.mkdir()
        for name, content in found["data"].items():
            (directory / name).write_bytes(base64.b64decode(content))
            (directory / name).chmod(0o600)
        return directory

    async def run(self, part: Runnable) -> None:
        """Returns when the part is ready."""
        self._running.append(self._tasks.create_task(part.run()))
        await self.ready(part.waiting)

    async def ready(self, waiting: Callable[[], list[str]]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while waiting():  # noqa: ASYNC110  a part says what it waits for when it is asked
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"still not ready: {waiting()}")

    def stop(self) -> None:
        for task in self._running:
            task.cancel()


class Counting:
    """Counts for the quotas of a real API server that has no kube-controller-manager beside it."""

    def __init__(self, client: Any) -> None:
        self._watched = Watched(client)
        self._controller = QuotaCounter(client, self._watched).controller

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watched.run())
            group.create_task(self._controller.run())

    def waiting(self) -> list[str]:
        return []


@contextlib.asynccontextmanager
async def staged(clusters: list[Server], render: Render, directory: Path) -> AsyncIterator[Stage]:
    infra, tenant = clusters
    async with asyncio.TaskGroup() as tasks:
        stage = Stage(infra, tenant, render, directory, tasks)
        await infra.install(stage.values["infra"])
        await tenant.install(stage.values["tenant"])
        if infra.cluster is None:
            await stage.run(Counting(infra.client))
        try:
            yield stage
        finally:
            stage.stop()
