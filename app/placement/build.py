"""Makes the parts of the wing that the descriptor names."""

from __future__ import annotations

from app.admission.parts import Context, Parts
from app.kube.resources import NAMESPACES
from app.placement.model import tenant_of
from app.placement.namespaces import Namespaces
from app.placement.settings import ConfinementSettings
from app.placement.webhook import PlacementInjector
from app.settings.source import settings_as


def tenants(context: Context) -> Namespaces | None:
    """The tenants of namespaces; None where tenants are not confined: the role may not read namespaces there."""
    if not settings_as(context.settings, ConfinementSettings).confine_tenants:
        return None
    return Namespaces(context.caches.lookup(NAMESPACES, tenant_of, called="namespace"))


def review(context: Context) -> Parts:
    """The placement on DPUs."""
    options = settings_as(context.settings, ConfinementSettings).placement
    return Parts(injectors=(PlacementInjector(context.once(tenants), options=options),))
