"""The controller role: the chosen controllers, elected by one Lease; its settings, to which each wing adds its own."""

from __future__ import annotations

from typing import Annotated

from pydantic import field_validator

from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Watches
from app.registry import CONTROLLERS
from app.runtime.manager import Group
from app.settings.reconciling import ControllerContext, ReconcilingSettings, RoleContext, Runnable
from app.settings.source import RECONCILING, Flag, Items, settings_as
from app.wiring import resolve

_NAMES = tuple(CONTROLLERS)
_USUAL = tuple(controller.name for controller in CONTROLLERS.values() if controller.usual)


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, ControllerSettings)
    chosen = [CONTROLLERS[name] for name in settings.controllers]

    def build_all(client: KubeClient, events: EventRecorder) -> Group:
        made = ControllerContext(client, settings, events, Watches(client))
        return Group(*(resolve(controller.build)(made) for controller in chosen))

    return context.elected(build_all)


class ControllerSettings(ReconcilingSettings):
    """`controllers` are the controllers that run."""

    controllers: Annotated[Items, Flag(f"Comma list of {', '.join(_NAMES)}", RECONCILING)] = _USUAL

    @field_validator("controllers")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError(f"want a list of {', '.join(_NAMES)}")
        for name in value:
            if name not in CONTROLLERS:
                raise ValueError(f"there is no controller {name!r}: want {', '.join(_NAMES)}")
        return tuple(dict.fromkeys(value))
