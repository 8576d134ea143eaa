"""What confinement of tenants needs at an API server."""

from __future__ import annotations

from app.wiring import READ, Permission, Permissions

PERMISSIONS: Permissions = {"webhook": (Permission("cluster", "", ("namespaces",), READ, when="confine_tenants"),)}
