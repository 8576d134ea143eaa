"""Composes the agent role: the agent, elected by a Lease of the tenant cluster."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

from cryptography import x509

from app import logs
from app.certs.metrics import refresh
from app.kube.client import KubeClient
from app.kube.events import Events
from app.kube.metrics import create_watch_series
from app.kube.resources import CONFIG_MAPS, PODS
from app.runtime.background import run_background, working
from app.runtime.manager import Group, Runnable
from app.tenancy.agent.agent import Agent
from app.tenancy.agent.metrics import create_series
from app.tenancy.agent.settings import AgentSettings
from app.tenancy.callspans import CallSpans
from app.tenancy.wing import AGENT_LEASE
from app.tracing.opening import opened_spans
from app.workloads.model import UVS_RESOURCES, WORKLOAD_RULES

_CONTROLLERS = ("agent-rules", "agent-mirrors", *(f"agent-{resource.plural}" for resource in UVS_RESOURCES))
_WATCHED = (PODS, CONFIG_MAPS, WORKLOAD_RULES, *UVS_RESOURCES)


def run_agent(settings: AgentSettings) -> int:
    """Run until a signal and return the exit status."""
    logs.configure(settings.log_level)
    with opened_spans("agent") as spans:
        runnable = Group(agent_part(settings, spans=spans), CertificateDate(settings.options.cert_file))
        return run_background(runnable, settings, role="agent")


def agent_part(settings: AgentSettings, *, spans: CallSpans | None = None) -> Runnable:
    """The agent of these settings, to be run in a loop."""
    create_series()
    create_watch_series(tuple(resource.kind for resource in _WATCHED))

    def agent(client: KubeClient, events: Events) -> Runnable:
        return Agent(client, options=settings.options, events=events, calls=spans)

    lease = AGENT_LEASE if settings.leader_elect else ""
    return working(agent, settings, role="agent", lease=lease, namespace=settings.namespace, reconcilers=_CONTROLLERS)


class CertificateDate:
    """Looks at the certificate's file from time to time, and tells the metrics when it ends."""

    def __init__(self, path: Path, *, poll: float = 10.0) -> None:
        self._path, self._poll = path, poll

    def waiting(self) -> list[str]:
        return []  # the agent itself says what is wrong with its files

    async def run(self) -> None:
        while True:
            refresh(await asyncio.to_thread(_not_after, self._path))
            await asyncio.sleep(self._poll)


def _not_after(path: Path) -> datetime | None:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0].not_valid_after_utc
    except (OSError, ValueError):
        return None
