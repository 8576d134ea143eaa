"""Makes what the wing reviews."""

from __future__ import annotations

from app.admission.parts import Context, Parts
from app.rmd.settings import AdmissionSettings
from app.settings.source import settings_as
from app.wiring import OFF


def review(context: Context) -> Parts:
    """Nothing is reviewed, and nothing is read, with the backend `off`."""
    settings = settings_as(context.settings, AdmissionSettings)
    if settings.rmd_backend == OFF:
        return Parts()
    # Imported late: with the backend off, as it usually is, none of it is needed.
    from app.rmd.admission.review import parts_of  # noqa: PLC0415

    return parts_of(context, settings)
