"""Composes the controller role: the chosen controllers, elected by one Lease of the infra cluster."""

from __future__ import annotations

from app.kube.client import KubeClient
from app.kube.events import Events
from app.kube.metrics import create_watch_series
from app.registry import CONTROLLER_LEASE, CONTROLLERS
from app.runtime.background import run_background, working
from app.runtime.controller_settings import ControllerSettings
from app.runtime.manager import Group, Runnable
from app.settings.reconciling import ControllerContext
from app.wiring import resolve


def run_controller(settings: ControllerSettings) -> int:
    """Run until a signal and return the exit status."""
    return run_background(controller_part(settings), settings, role="controller")


def controller_part(settings: ControllerSettings) -> Runnable:
    """The controllers of these settings, to be run in a loop."""
    chosen = [CONTROLLERS[name] for name in settings.controllers]
    names = tuple(name for one in chosen for name in one.reconcilers)
    create_watch_series(tuple(kind for one in chosen for kind in one.watches))

    def group(client: KubeClient, events: Events) -> Runnable:
        context = ControllerContext(client, settings, events)
        return Group(*(resolve(one.build)(context) for one in chosen))

    lease = CONTROLLER_LEASE if settings.leader_elect else ""
    return working(group, settings, role="controller", lease=lease, namespace=settings.namespace, reconcilers=names)
