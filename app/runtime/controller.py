"""Builds the controller role: the chosen controllers, elected by one Lease."""

from __future__ import annotations

from app.kube.metrics import create_controller_series, create_watch_series
from app.registry import CONTROLLERS
from app.runtime.controller_settings import ControllerSettings
from app.runtime.manager import Group
from app.settings.reconciling import ControllerContext, RoleContext, Runnable
from app.settings.source import settings_as
from app.wiring import resolve


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, ControllerSettings)
    chosen = [CONTROLLERS[name] for name in settings.controllers]
    create_controller_series(tuple(name for one in chosen for name in one.reconcilers), lease="")
    create_watch_series(tuple(kind for one in chosen for kind in one.watches))
    return context.elected(
        lambda client, events: Group(
            *(resolve(one.build)(ControllerContext(client, settings, events)) for one in chosen)
        )
    )
