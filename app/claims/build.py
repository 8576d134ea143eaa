"""Makes what the wing reviews."""

from __future__ import annotations

from dataclasses import replace

from app.admission.parts import Context, Parts
from app.claims.settings import AdmissionSettings
from app.settings.source import settings_as


def review(context: Context) -> Parts:
    """Nothing is reviewed, and nothing is read, unless claims are turned on."""
    settings = settings_as(context.settings, AdmissionSettings)
    if not settings.claims:
        return Parts()
    # Imported late: where claims are off, as they usually are, none of it is needed.
    from app.claims.admission.review import statuses  # noqa: PLC0415
    from app.claims.injection.review import injection  # noqa: PLC0415

    injected = injection(context, settings)
    return replace(injected, checks=(*injected.checks, *statuses(context, settings).checks))
