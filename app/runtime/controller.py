"""The controller role: the chosen controllers, elected by one Lease."""

from __future__ import annotations

from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Watches
from app.registry import CONTROLLERS
from app.runtime.controller_settings import ControllerSettings
from app.runtime.manager import Group
from app.settings.reconciling import ControllerContext, RoleContext, Runnable
from app.settings.source import settings_as
from app.wiring import resolve


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, ControllerSettings)
    chosen = [CONTROLLERS[name] for name in settings.controllers]

    def build_all(client: KubeClient, events: EventRecorder) -> Group:
        made = ControllerContext(client, settings, events, Watches(client))
        return Group(*(resolve(controller.build)(made) for controller in chosen))

    return context.elected(build_all)
