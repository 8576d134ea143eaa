"""Starts a role that stands by itself: logs, health port, signals, exit status."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import uuid
from collections.abc import Callable

import structlog
import uvloop

from app import logs
from app.kube.client import KubeClient
from app.kube.events import Events
from app.kube.metrics import create_controller_series
from app.kube.transport import AioKubeClient, connect
from app.metrics import describe
from app.runtime.descriptors import raise_limit
from app.runtime.events import Recorded, recorder
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
    make, lease, namespace = resolve(role.build), role.lease, ""
    if lease:
        reconciling = settings_as(settings, ReconcilingSettings)
        lease, namespace = lease if reconciling.leader_elect else "", reconciling.namespace
    work = working(lambda client, _: make(client, settings), settings, role=role.name, lease=lease, namespace=namespace)
    return run_background(work, settings, role=role.name)


def working(
    make: Callable[[KubeClient, Events], Runnable],
    settings: RoleSettings,
    *,
    role: str,
    lease: str,
    namespace: str,
    reconcilers: tuple[str, ...] = (),
) -> Runnable:
    """What `make` makes of a client and the role's Events; with a `lease`, while this process holds it.

    `reconcilers` are the names under which its reconcilers count.
    """
    create_controller_series(reconcilers, lease=lease)

    def built(client: AioKubeClient) -> Runnable:
        events = recorder(role, lambda: client)
        if not lease:
            return Recorded(make(client, events), events)
        elected = LeaderElected(
            lambda fenced: make(fenced, events), client=client, namespace=namespace, lease=lease, identity=_identity()
        )
        return Recorded(elected, events)

    return connected(built, settings)


def connected(build: Callable[[AioKubeClient], Runnable], settings: RoleSettings) -> Runnable:
    """A runnable that is built when the role's cluster has been connected to."""
    return Connected(lambda: connect(kubeconfig=settings.kubeconfig, context=settings.context), build)


def _identity() -> str:
    """Who this process is in a Lease: the Pod's name (which is the host's), and something no other process has."""
    return f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"
