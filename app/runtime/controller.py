"""Composes the controller role: the chosen controllers, elected by one Lease of the infra cluster."""

from __future__ import annotations

from app.kube.client import KubeClient
from app.kube.metrics import create_controller_series, create_watch_series
from app.kube.transport import AioKubeClient, connect
from app.registry import CONTROLLER_LEASE, CONTROLLERS
from app.runtime.background import identity, run_background
from app.runtime.controller_settings import ControllerSettings
from app.runtime.events import Recorded, recorder
from app.runtime.manager import Connected, Group, LeaderElected, Runnable
from app.settings.reconciling import ControllerContext
from app.wiring import resolve


def run_controller(settings: ControllerSettings) -> int:
    """Run until a signal and return the exit status."""
    return run_background(controller_part(settings), settings, role="controller")


def controller_part(settings: ControllerSettings) -> Runnable:
    """The controllers of these settings, to be run in a loop."""
    chosen = [CONTROLLERS[name] for name in settings.controllers]
    names = tuple(name for one in chosen for name in one.reconcilers)
    create_controller_series(names, lease=CONTROLLER_LEASE if settings.leader_elect else "")
    create_watch_series(tuple(kind for one in chosen for kind in one.watches))

    def build(client: AioKubeClient) -> Runnable:
        events = recorder("controller", lambda: client)

        def working(client: KubeClient) -> Runnable:
            context = ControllerContext(client, settings, events)
            return Group(*(resolve(one.build)(context) for one in chosen))

        if not settings.leader_elect:
            return Recorded(working(client), events)
        elected = LeaderElected(
            working, client=client, namespace=settings.namespace, lease=CONTROLLER_LEASE, identity=identity()
        )
        return Recorded(elected, events)

    return Connected(lambda: connect(kubeconfig=settings.kubeconfig, context=settings.context), build)
