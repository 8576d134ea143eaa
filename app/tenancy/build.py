"""Makes what the wing reviews."""

from __future__ import annotations

from app.admission.parts import Context, Parts
from app.settings.source import settings_as
from app.tenancy.settings import AdminSettings
from app.tenancy.webhook import TenantCheck


def review(context: Context) -> Parts:
    """The check of Tenants."""
    return Parts(checks=(TenantCheck(settings_as(context.settings, AdminSettings).admin_names),))
