"""Makes the parts of the wing that the descriptor names."""

from __future__ import annotations

from app.admission.parts import Context, Parts
from app.placement.model import tenant_of
from app.placement.settings import ConfinementSettings, PlacementSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.workloads.controller.controller import ControllerOptions, WorkloadsController
from app.workloads.settings import QuotaSettings
from app.workloads.tenant_pods import TenantPodCheck
from app.workloads.webhook import RuleCheck


def controller(context: ControllerContext) -> WorkloadsController:
    options = ControllerOptions(
        placement=settings_as(context.settings, PlacementSettings).placement,
        workers=context.settings.max_concurrent_reconciles,
        resync=context.settings.resync_seconds,
        quota=settings_as(context.settings, QuotaSettings).quota,
    )
    return WorkloadsController(context.client, options=options, events=context.events)


def review(context: Context) -> Parts:
    settings = settings_as(context.settings, ConfinementSettings)
    policy = settings.placement.policy
    tenants = context.caches.namespaces(tenant_of) if settings.confine_tenants else None
    return Parts(checks=(RuleCheck(policy), TenantPodCheck(tenants, policy)))
