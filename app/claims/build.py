"""Makes the parts of the wing that the descriptor names."""

from __future__ import annotations

from app.admission.parts import Context, Parts
from app.claims.admission.review import statuses
from app.claims.settings import AdmissionSettings
from app.settings.source import settings_as


def review(context: Context) -> Parts:
    """Nothing is reviewed, and nothing is read, unless claims are turned on."""
    settings = settings_as(context.settings, AdmissionSettings)
    return statuses(context, settings) if settings.claims else Parts()
