"""Starts a role that stands by itself: logs, health port, signals, exit status."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import uuid
from typing import cast

import structlog
import uvloop

from app import logs
from app.kube.metrics import create_controller_series
from app.kube.transport import AioKubeClient, connect
from app.metrics import describe
from app.runtime.descriptors import raise_limit
from app.runtime.manager import Connected, LeaderElected, Manager, Runnable
from app.runtime.stopping import until_signal
from app.serving.listening import address, listen
from app.settings.reconciling import ReconcilingSettings
from app.settings.source import RoleSettings, settings_as
from app.wiring import Role, resolve

_log = structlog.get_logger(__name__)


def run_background(runnable: Runnable, settings: RoleSettings, *, role: str) -> int:
    """Run it until a signal and return the exit status. Raises UsageError for a mistake of the user."""
    logs.configure(settings.log_level)
    raise_limit()
    describe(role)
    health = listen("--health-check-port", settings.bind_address, settings.health_check_port)
    _log.info("listening", role=role, health=address(health, "http"))
    try:
        uvloop.run(until_signal(Manager(runnable, health=health).run))
    except asyncio.CancelledError:
        _log.warning("stopped before everything was drained")
        return 1
    finally:
        sys.stderr.flush()
    return 0


def run_role(role: Role, settings: RoleSettings) -> int:
    """Run the work that a wing makes; with a Lease, while this process holds it in the namespace of its settings."""
    logs.configure(settings.log_level)
    make = resolve(role.build)
    lease = role.lease if not role.lease or settings_as(settings, ReconcilingSettings).leader_elect else ""
    create_controller_series((), lease=lease)

    def built(client: AioKubeClient) -> Runnable:
        if not lease:
            return cast("Runnable", make(client, settings))
        return LeaderElected(
            lambda fenced: make(fenced, settings),
            client=client,
            namespace=settings_as(settings, ReconcilingSettings).namespace,
            lease=lease,
            identity=identity(),
        )

    connected = Connected(lambda: connect(kubeconfig=settings.kubeconfig, context=settings.context), built)
    return run_background(connected, settings, role=role.name)


def identity() -> str:
    """Who this process is in a Lease: the Pod's name (which is the host's), and something no other process has."""
    return f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"
