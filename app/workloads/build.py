"""Makes what the wing reviews."""

from __future__ import annotations

from app.admission.parts import Context, Parts
from app.placement.model import tenant_of
from app.placement.settings import ConfinementSettings
from app.settings.source import settings_as
from app.workloads.tenant_pods import TenantPodCheck
from app.workloads.webhook import RuleCheck


def review(context: Context) -> Parts:
    settings = settings_as(context.settings, ConfinementSettings)
    policy = settings.placement.policy
    tenants = context.caches.namespaces(tenant_of) if settings.confine_tenants else None
    return Parts(checks=(RuleCheck(policy), TenantPodCheck(tenants, policy)))
