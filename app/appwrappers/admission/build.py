"""Makes what the wing reviews."""

from __future__ import annotations

from app.admission.parts import Context, Parts
from app.appwrappers.settings import AdmissionSettings
from app.settings.source import settings_as


def review(context: Context) -> Parts:
    """Nothing is reviewed, and nothing is read, unless AppWrappers are turned on."""
    settings = settings_as(context.settings, AdmissionSettings)
    if not settings.appwrappers:
        return Parts()
    # Imported late: where AppWrappers are off, as they usually are, none of it is needed.
    from app.appwrappers.admission.review import parts_of  # noqa: PLC0415

    return parts_of(context, settings)
