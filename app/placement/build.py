"""Makes the parts of the wing that the descriptor names."""

from __future__ import annotations

from app.admission.parts import Context, Parts
from app.placement.model import tenant_of
from app.placement.settings import ConfinementSettings
from app.placement.webhook import PlacementInjector
from app.settings.source import settings_as


def review(context: Context) -> Parts:
    """The placement on DPUs."""
    settings = settings_as(context.settings, ConfinementSettings)
    # Where tenants are not confined, the role may not read namespaces.
    tenants = context.caches.namespaces(tenant_of) if settings.confine_tenants else None
    return Parts(injectors=(PlacementInjector(tenants, options=settings.placement),))
