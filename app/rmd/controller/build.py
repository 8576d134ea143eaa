"""Makes the controller that the descriptor of the wing names."""

from __future__ import annotations

from app.rmd import metrics
from app.rmd.controller.controller import Options, RmdController
from app.rmd.settings import RmdSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as


def controller(context: ControllerContext) -> RmdController:
    settings = settings_as(context.settings, RmdSettings)
    metrics.create_series()
    options = Options(
        namespace=settings.rmd_namespace,
        secret=settings.rmd_client_certificate,
        own=context.settings.namespace,
        templates=settings.rmd_daemon_sets,
        workers=context.settings.max_concurrent_reconciles,
        resync=context.settings.resync_seconds,
    )
    return RmdController(context.client, options=options, events=context.events)
