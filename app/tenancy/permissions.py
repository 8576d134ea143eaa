"""What tenants' namespaces, the gateway and the agent need at an API server: kinds, reviews and permissions."""

from __future__ import annotations

from app.tenancy.agent.settings import CONFIG_MAP_NAME
from app.tenancy.model import ADMIN_SECRET, CA_SECRET, SERVING_SECRET, tenants_role
from app.tenancy.namespace import ISOLATION, OBJECTS
from app.tenancy.wing import AGENT_LEASE
from app.wiring import READ, Permission, Permissions, ReviewRule
from app.workloads.model import (
    ADMIN_RULES,
    TENANT_RULES,
    TENANTS,
    UVS_PODS,
    UVS_RESOURCES,
    UVS_SECRETS,
    WORKLOAD_RULES,
    WORKLOADS,
)

TENANT_GRANTS = ("controller", "gateway")
"""The roles that the controller binds in each tenant's namespace."""

_GROUP = WORKLOADS.group
_RBAC = "rbac.authorization.k8s.io"
_LEASES = "coordination.k8s.io"
_UVS = tuple(resource.plural for resource in UVS_RESOURCES)
INFRA = (TENANTS,)
TENANT = UVS_RESOURCES
REVIEWS = (
    ReviewRule("objects", UVS_PODS.group, UVS_PODS.version, _UVS),
    ReviewRule("objects", _GROUP, WORKLOADS.version, (TENANT_RULES.plural, ADMIN_RULES.plural, TENANTS.plural)),
)
_RULE_CALLS = ("get", "list", "create", "update", "delete")
_OBJECT_CALLS = ("get", "list", "create", "patch", "delete")


PERMISSIONS: Permissions = {
    # The controller itself binds the roles that act in tenants' namespaces.
    "tenants": (
        Permission("tenants", "", ("resourcequotas",), ("create",)),
        Permission("tenants", "", ("resourcequotas",), ("get", "patch"), (ISOLATION, OBJECTS)),
        Permission("tenants", "", ("serviceaccounts",), ("create",)),
        Permission("tenants", "", ("serviceaccounts",), ("get", "patch"), ("default",)),
        Permission("cluster", _GROUP, (TENANTS.plural,), (*READ, "patch")),
        Permission("cluster", _GROUP, (f"{TENANTS.plural}/status",), ("patch",)),
        Permission("cluster", "", ("nodes",), (*READ, "patch")),
        Permission("cluster", "", ("namespaces",), (*READ, "create")),
        Permission("cluster", _RBAC, ("rolebindings",), ("get", "create", "patch")),
        Permission("cluster", _RBAC, ("clusterroles",), ("bind",), tuple(map(tenants_role, TENANT_GRANTS))),
    ),
    # What tenants write through the gateway is written in tenants' namespaces alone, their Secrets too. In `universe`,
    # where the Secrets of the gateway itself may be, it reaches the rules of the admin and nothing else.
    "gateway": (
        Permission("cluster", "", ("pods",), ("list", "watch")),
        Permission("cluster", _GROUP, (TENANTS.plural,), (*READ, "patch")),
        Permission("cluster", _GROUP, (f"{TENANTS.plural}/status",), ("patch",)),
        Permission("cluster", _GROUP, (WORKLOADS.plural, TENANT_RULES.plural), ("list", "watch")),
        Permission("tenants", _GROUP, (WORKLOADS.plural,), ("create", "patch", "delete")),
        Permission("tenants", _GROUP, (TENANT_RULES.plural,), _RULE_CALLS),
        Permission("system", _GROUP, (ADMIN_RULES.plural,), _RULE_CALLS),
        Permission("tenants", "", ("pods", "secrets", "configmaps"), _OBJECT_CALLS),
        Permission("tenants", "apps", ("daemonsets",), _OBJECT_CALLS),
    ),
    # In the tenant's cluster.
    "agent": (
        Permission("cluster", "", ("pods",), ("list", "watch")),
        Permission("cluster", "", ("namespaces",), ("get",), ("kube-system",)),
        Permission("system", "", ("configmaps",), READ, (CONFIG_MAP_NAME,)),
        Permission("system", WORKLOAD_RULES.group, (WORKLOAD_RULES.plural,), READ),
        Permission("system", WORKLOAD_RULES.group, (f"{WORKLOAD_RULES.plural}/status",), ("patch",)),
        Permission("system", UVS_PODS.group, _UVS, READ),
        Permission("system", UVS_PODS.group, (UVS_PODS.plural,), ("create", "update", "delete")),
        Permission("system", UVS_PODS.group, tuple(f"{plural}/status" for plural in _UVS), ("patch",)),
        Permission("system", _LEASES, ("leases",), ("create",)),
        Permission("system", _LEASES, ("leases",), ("get", "update"), (AGENT_LEASE,)),
        Permission("system", "", ("events",), ("create", "patch")),
    ),
    # Not UVSSecrets: they hold what becomes a Secret.
    "ui": (
        Permission("cluster", _GROUP, (TENANTS.plural,), READ),
        Permission("cluster", UVS_PODS.group, tuple(name for name in _UVS if name != UVS_SECRETS.plural), READ),
    ),
    "certificates": (
        Permission(
            "release", "", ("secrets",), (*READ, "update"), (CA_SECRET, SERVING_SECRET, ADMIN_SECRET), when="gateway"
        ),
    ),
}
