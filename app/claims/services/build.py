"""Makes the controller of Services on other networks."""

from __future__ import annotations

from app.claims.services.controller import ServicesController
from app.settings.reconciling import ControllerContext


def services(context: ControllerContext) -> ServicesController:
    settings = context.settings
    return ServicesController(
        context.client,
        workers=settings.max_concurrent_reconciles,
        resync=settings.resync_seconds,
        events=context.events,
    )
