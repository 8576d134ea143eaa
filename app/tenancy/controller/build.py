"""Makes the controller that the descriptor of the wing names."""

from __future__ import annotations

from app.placement.settings import PlacementSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.tenancy.controller.controller import TenantsController
from app.tenancy.settings import TenantsOptions, TenantsSettings


def controller(context: ControllerContext) -> TenantsController:
    """The controller of tenants: their namespaces and the labels of their nodes."""
    settings = settings_as(context.settings, TenantsSettings)
    options = TenantsOptions(
        placement=settings_as(context.settings, PlacementSettings).placement,
        admin_names=settings.admin_names,
        grants=settings.grants,
        quota=settings.quota,
        resync=context.settings.resync_seconds,
    )
    return TenantsController(context.client, events=context.events, options=options)
