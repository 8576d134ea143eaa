"""Makes the controller of Services on other networks."""

from __future__ import annotations

from app.claims.services.controller import ServicesController
from app.claims.settings import ControllerSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as


def services(context: ControllerContext) -> ServicesController:
    settings, networks = context.settings, settings_as(context.settings, ControllerSettings)
    return ServicesController(
        context.client,
        workers=settings.max_concurrent_reconciles,
        resync=settings.resync_seconds,
        events=context.events,
        keys=networks.network_resource_name_keys,
        home=networks.default_network_namespace,
        unconfined=networks.unconfined_networks,
        excluded=networks.excluded,
    )
