"""Makes the controller of network data."""

from __future__ import annotations

from app.claims import metrics
from app.claims.publishing.controller import ClaimsController, Options
from app.claims.publishing.ownership import Rules
from app.claims.settings import PublishingSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as


def publishing(context: ControllerContext) -> ClaimsController:
    settings = settings_as(context.settings, PublishingSettings)
    metrics.create_series()
    options = options_of(
        settings, workers=context.settings.max_concurrent_reconciles, resync=context.settings.resync_seconds
    )
    return ClaimsController(context.client, options=options, events=context.events)


def options_of(settings: PublishingSettings, *, workers: int, resync: float, node: str = "") -> Options:
    """With `node`, those of the agent of this node."""
    return Options(
        rules=Rules(
            drivers=frozenset(settings.claims_drivers),
            conflict=settings.claims_conflict,
            self_publishing=frozenset(settings.claims_self_publishing),
            repair_after=settings.claims_repair_after,
        ),
        keys=settings.network_resource_name_keys,
        home=settings.default_network_namespace,
        node=node,
        workers=workers,
        resync=resync,
        unconfined=settings.unconfined_networks,
        excluded=settings.excluded,
    )
