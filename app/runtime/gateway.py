"""Composes the gateway role."""

from __future__ import annotations

import asyncio
from typing import get_args

from app import logs
from app.certs.metrics import follow
from app.kube.client import KubeClient
from app.kube.metrics import create_watch_series
from app.runtime.allocator import share_one_heap
from app.runtime.background import connected, run_background
from app.runtime.manager import Runnable
from app.serving.listening import listen
from app.tenancy.callspans import ServedSpans
from app.tenancy.gateway.identity import Reason
from app.tenancy.gateway.metrics import create_series
from app.tenancy.gateway.server import Gateway
from app.tenancy.gateway.services import methods
from app.tenancy.gateway.settings import GatewaySettings
from app.tenancy.gateway.sources import WATCHED
from app.tracing.opening import opened_spans


def run_gateway(settings: GatewaySettings) -> int:
    """Serve until a signal and return the exit status. Raises UsageError for a mistake of the user."""
    share_one_heap()
    # gRPC binds its port itself, later, and does not say what is wrong with it.
    listen("--port", settings.bind_address, settings.port).close()
    logs.configure(settings.log_level)
    with opened_spans("gateway") as spans:
        return run_background(gateway_part(settings, alone=True, spans=spans), settings, role="gateway")


def gateway_part(settings: GatewaySettings, *, alone: bool = False, spans: ServedSpans | None = None) -> Runnable:
    """The gateway of these settings, to be run in a loop; `alone` it gives what a process has but one of."""
    create_series(methods(), get_args(Reason))
    create_watch_series(WATCHED)

    def build(client: KubeClient) -> Runnable:
        gateway = Gateway(client, options=settings.options, spans=spans)
        if alone:
            follow(lambda: gateway.not_after)
        return Serving(gateway)

    return connected(build, settings)


class Serving:
    """A gateway as a runnable: when it is cancelled it drains first."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def waiting(self) -> list[str]:
        return self._gateway.waiting()

    async def run(self) -> None:
        stop = asyncio.Event()
        serving = asyncio.ensure_future(self._gateway.run(stop))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            stop.set()
            await serving
            raise
