"""What companions and the statuses of rules need at an API server."""

from __future__ import annotations

from app.wiring import Permission, Permissions
from app.workloads.model import ADMIN_RULES, TENANT_RULES, WORKLOADS

_GROUP = WORKLOADS.group
_COMPANIONS = ("get", "create", "patch", "delete")
_TENANTS = (WORKLOADS.plural, TENANT_RULES.plural)

PERMISSIONS: Permissions = {
    "controller": (
        Permission("cluster", "", ("pods",), ("list", "watch")),
        Permission("tenants", "", ("pods",), _COMPANIONS),
        # The companions of the admin's rules are in `universe`, beside these rules.
        Permission("system", "", ("pods",), _COMPANIONS),
        Permission("cluster", _GROUP, _TENANTS, ("list", "watch")),
        Permission("cluster", _GROUP, tuple(f"{plural}/status" for plural in _TENANTS), ("patch",)),
        Permission("system", _GROUP, (ADMIN_RULES.plural,), ("list", "watch")),
        Permission("system", _GROUP, (f"{ADMIN_RULES.plural}/status",), ("patch",)),
    ),
}
