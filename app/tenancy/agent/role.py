"""Builds the agent role: the agent, elected by a Lease of the tenant cluster."""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial
from pathlib import Path

from cryptography import x509

from app.kube.metrics import create_controller_series, create_watch_series
from app.kube.running import stand
from app.serving.metrics import refresh
from app.settings.reconciling import RoleContext, Runnable
from app.settings.source import settings_as
from app.tenancy.agent.agent import CONTROLLERS, WATCHED, Agent
from app.tenancy.agent.metrics import create_series
from app.tenancy.agent.settings import AgentOptions, AgentSettings

_POLL_SECONDS = 10.0


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, AgentSettings)
    create_series()
    create_controller_series(CONTROLLERS, lease="")
    create_watch_series(tuple(resource.kind for resource in WATCHED))
    work = context.elected(partial(Agent, options=AgentOptions(settings), calls=context.spans()))
    return CertificateDate(work, Path(settings.tls_cert_file)) if context.alone else work


class CertificateDate:
    """Runs the work of a process, and sets the metric of when the certificate in a file ends."""

    def __init__(self, work: Runnable, path: Path) -> None:
        self._work, self._path = work, path

    def waiting(self) -> list[str]:
        return self._work.waiting()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            following = stand(tasks, "certificate", self._follow)
            await self._work.run()
            following.cancel()

    async def _follow(self) -> None:
        while True:
            refresh(await asyncio.to_thread(_not_after, self._path))
            await asyncio.sleep(_POLL_SECONDS)


def _not_after(path: Path) -> datetime | None:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0].not_valid_after_utc
    except (OSError, ValueError):
        return None
