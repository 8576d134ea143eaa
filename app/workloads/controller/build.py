"""Makes the controller that the descriptor of the wing names."""

from __future__ import annotations

from app.placement.settings import PlacementSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.workloads.controller.controller import ControllerOptions, WorkloadsController
from app.workloads.settings import QuotaSettings


def controller(context: ControllerContext) -> WorkloadsController:
    options = ControllerOptions(
        placement=settings_as(context.settings, PlacementSettings).placement,
        workers=context.settings.max_concurrent_reconciles,
        resync=context.settings.resync_seconds,
        quota=settings_as(context.settings, QuotaSettings).quota,
    )
    return WorkloadsController(context.client, options=options, events=context.events)
