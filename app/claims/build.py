"""Makes the parts of the wing that the descriptor names."""

from __future__ import annotations

from app.admission.parts import Context, Parts
from app.claims.injection.review import injection
from app.claims.settings import AdmissionSettings, TemplateSettings
from app.claims.templates import metrics
from app.claims.templates.controller import ClaimTemplatesController, Options
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as


def review(context: Context) -> Parts:
    """Nothing is reviewed, and nothing is read, unless claims are turned on."""
    settings = settings_as(context.settings, AdmissionSettings)
    return injection(context, settings) if settings.claims else Parts()


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
