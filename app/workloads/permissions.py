"""What companions and the statuses of rules need at an API server: kinds, reviews and permissions."""

from __future__ import annotations

from app.wiring import Permission, Permissions, ReviewRule
from app.workloads.model import ADMIN_RULES, TENANT_RULES, WORKLOAD_RULES, WORKLOADS
from app.workloads.tenant_pods import CLAIMS, TEMPLATES

_GROUP = WORKLOADS.group
_COMPANIONS = ("get", "create", "patch", "delete")
_TENANTS = (WORKLOADS.plural, TENANT_RULES.plural)
_VERSIONS = {"resource.k8s.io": "*"}

INFRA = (WORKLOADS, TENANT_RULES, ADMIN_RULES)
TENANT = (WORKLOAD_RULES,)


def _isolated() -> dict[str, tuple[str, ...]]:
    """The plurals of what is checked in tenants' namespaces, by group; they are regular."""
    found: dict[str, tuple[str, ...]] = {}
    for group, kind in (*TEMPLATES, *CLAIMS):
        found[group] = (*found.get(group, ()), f"{kind.lower()}s")
    return found | {"": (*found[""], "pods/ephemeralcontainers")}


REVIEWS = (
    ReviewRule("validate", WORKLOAD_RULES.group, WORKLOAD_RULES.version, (WORKLOAD_RULES.plural,)),
    *(ReviewRule("tenants", group, _VERSIONS.get(group, "v1"), resources) for group, resources in _isolated().items()),
)

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
