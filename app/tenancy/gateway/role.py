"""Builds the gateway role."""

from __future__ import annotations

import ctypes
import gc
from typing import get_args

from app.kube.client import KubeClient
from app.kube.metrics import create_watch_series
from app.serving.listener import listen
from app.serving.metrics import follow
from app.settings.reconciling import Drained, RoleContext, Runnable
from app.settings.source import settings_as
from app.tenancy.gateway.caches import WATCHED
from app.tenancy.gateway.identity import Reason
from app.tenancy.gateway.metrics import create_series
from app.tenancy.gateway.server import Gateway, methods
from app.tenancy.gateway.settings import GatewaySettings

_M_ARENA_MAX = -8
"""From malloc.h of glibc."""


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, GatewaySettings)
    if context.alone:
        _share_one_heap()
        # The gateway binds its port later, and an error would not name the flag.
        listen("--port", settings.bind_address, settings.port).close()
    spans = context.spans()
    create_series(methods(), get_args(Reason))
    create_watch_series(WATCHED)

    settled = _keep_loaded if context.alone else lambda: None

    def serving(client: KubeClient) -> Runnable:
        gateway = Gateway(client, settings=settings, spans=spans, settled=settled)
        if context.alone:
            follow(lambda: gateway.not_after)
        return Drained(gateway)

    return context.connected(serving)


def _keep_loaded() -> None:
    """Modules and first caches stay. A full collection walks through all that is not frozen, and stops every call."""
    gc.collect()
    gc.freeze()


def _share_one_heap() -> None:
    """One heap for all threads, where the C library is glibc; to be called before there are any.

    By default each thread gets its own, and what a flood of connections left in one is not used for the next flood:
    the process would grow by a hundred MiB with each. The gateway's threads hardly meet in the allocator.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
