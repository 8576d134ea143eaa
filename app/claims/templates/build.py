"""Makes the controller of claim templates."""

from __future__ import annotations

from app.claims.settings import TemplateSettings
from app.claims.templates import metrics
from app.claims.templates.controller import ClaimTemplatesController, Options
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as


def templates(context: ControllerContext) -> ClaimTemplatesController:
    settings = settings_as(context.settings, TemplateSettings)
    metrics.create_series()
    options = Options(
        namespace=context.settings.namespace,
        config_map=settings.claim_templates,
        workers=context.settings.max_concurrent_reconciles,
        resync=context.settings.resync_seconds,
    )
    return ClaimTemplatesController(context.client, options=options, events=context.events)
