"""What each role may do at an API server, and nothing more: the least that it needs, as data.

The Roles of the chart say the same (`tests/chart` compares verb by verb); `berth doctor` asks the API server for it.
No role has `*`, and none but those that keep them reads Secrets: those of its own release, or of tenants' namespaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.kube.resources import MUTATING_WEBHOOKS, NETWORK_ATTACHMENTS, VALIDATING_WEBHOOKS
from app.networks.switches import CONFIG_MAP_NAME
from app.tenancy.agent.options import CONFIG_MAP_NAME as AGENT_CONFIG_MAP
from app.tenancy.authority.ensuring import ADMIN_SECRET, CA_SECRET, SERVING_SECRET
from app.tenancy.controller.bounds import ISOLATION, OBJECTS
from app.workloads.model import ADMIN_RULES, TENANT_RULES, TENANTS, UVS_PODS, UVS_RESOURCES, WORKLOAD_RULES, WORKLOADS

Scope = Literal["cluster", "release", "system", "tenants"]
"""Where: everywhere; in the namespace of the release; in the namespace `universe`; in the namespace of each tenant."""
Role = Literal["webhook", "controller", "gateway", "agent", "certificates"]
ROLES: tuple[Role, ...] = ("webhook", "controller", "gateway", "agent", "certificates")

READ = ("get", "list", "watch")
WEBHOOK_SECRET = "berth-webhook-tls"  # noqa: S105 - the name of an object
"""In a release `berth`; in another it begins with the name of the release's objects."""
CONTROLLER_LEASE = "berth-controller"
AGENT_LEASE = "berth-agent"
TENANT_GRANTS: tuple[Role, ...] = ("controller", "gateway")
"""The roles that the controller binds in each tenant's namespace."""


@dataclass(frozen=True, slots=True)
class Permission:
    """These verbs on these resources of a group; with `names`, on those objects alone."""

    scope: Scope
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


_WORKLOAD_GROUP = WORKLOADS.group
_UVS = tuple(resource.plural for resource in UVS_RESOURCES)
_RULE_CALLS = ("get", "list", "create", "update", "delete")
_COMPANIONS = ("get", "create", "patch", "delete")
_EVENTS = Permission("cluster", "", ("events",), ("create", "patch"))


def webhook(*, confine_tenants: bool = False, events: bool = True) -> tuple[Permission, ...]:
    """It reads; what it writes are Events."""
    return (
        Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), READ),
        Permission("release", "", ("configmaps",), READ, (CONFIG_MAP_NAME,)),
        *([Permission("cluster", "", ("namespaces",), READ)] if confine_tenants else []),
        *([_EVENTS] if events else []),
    )


def controller() -> tuple[Permission, ...]:
    """Companions are created in tenants' namespaces; the controller itself binds the roles that act there."""
    tenants = (WORKLOADS.plural, TENANT_RULES.plural)
    return (
        Permission("cluster", "", ("pods",), ("list", "watch")),
        Permission("tenants", "", ("pods",), _COMPANIONS),
        Permission("tenants", "", ("resourcequotas",), ("create",)),
        Permission("tenants", "", ("resourcequotas",), ("get", "patch"), (ISOLATION, OBJECTS)),
        Permission("tenants", "", ("serviceaccounts",), ("create",)),
        Permission("tenants", "", ("serviceaccounts",), ("get", "patch"), ("default",)),
        # The companions of the admin's rules are in `universe`, beside these rules.
        Permission("system", "", ("pods",), _COMPANIONS),
        Permission("cluster", _WORKLOAD_GROUP, tenants, ("list", "watch")),
        Permission("cluster", _WORKLOAD_GROUP, tuple(f"{plural}/status" for plural in tenants), ("patch",)),
        Permission("system", _WORKLOAD_GROUP, (ADMIN_RULES.plural,), ("list", "watch")),
        Permission("system", _WORKLOAD_GROUP, (f"{ADMIN_RULES.plural}/status",), ("patch",)),
        Permission("cluster", _WORKLOAD_GROUP, (TENANTS.plural,), (*READ, "patch")),
        Permission("cluster", _WORKLOAD_GROUP, (f"{TENANTS.plural}/status",), ("patch",)),
        Permission("cluster", "", ("nodes",), (*READ, "patch")),
        Permission("cluster", "", ("namespaces",), (*READ, "create")),
        Permission("cluster", "rbac.authorization.k8s.io", ("rolebindings",), ("get", "create", "patch")),
        Permission(
            "cluster",
            "rbac.authorization.k8s.io",
            ("clusterroles",),
            ("bind",),
            tuple(map(tenants_role, TENANT_GRANTS)),
        ),
        Permission("release", "coordination.k8s.io", ("leases",), ("create",)),
        Permission("release", "coordination.k8s.io", ("leases",), ("get", "update"), (CONTROLLER_LEASE,)),
        _EVENTS,
    )


def gateway() -> tuple[Permission, ...]:
    """What tenants write through it is written in tenants' namespaces alone, their Secrets too.

    In `universe`, where the Secrets of the gateway itself may be, it reaches nothing but the rules of the admin.
    """
    return (
        Permission("cluster", "", ("pods",), ("list", "watch")),
        Permission("cluster", _WORKLOAD_GROUP, (TENANTS.plural,), (*READ, "patch")),
        Permission("cluster", _WORKLOAD_GROUP, (WORKLOADS.plural, TENANT_RULES.plural), ("list", "watch")),
        Permission("tenants", _WORKLOAD_GROUP, (WORKLOADS.plural,), ("create", "patch", "delete")),
        Permission("tenants", _WORKLOAD_GROUP, (TENANT_RULES.plural,), _RULE_CALLS),
        Permission("system", _WORKLOAD_GROUP, (ADMIN_RULES.plural,), _RULE_CALLS),
        Permission("tenants", "", ("pods", "secrets", "configmaps"), ("get", "list", "create", "patch", "delete")),
        Permission("tenants", "apps", ("daemonsets",), ("get", "list", "create", "patch", "delete")),
    )


def agent() -> tuple[Permission, ...]:
    """In the tenant's cluster."""
    return (
        Permission("cluster", "", ("pods",), ("list", "watch")),
        Permission("cluster", "", ("namespaces",), ("get",), ("kube-system",)),
        Permission("system", "", ("configmaps",), READ, (AGENT_CONFIG_MAP,)),
        Permission("system", WORKLOAD_RULES.group, (WORKLOAD_RULES.plural,), READ),
        Permission("system", WORKLOAD_RULES.group, (f"{WORKLOAD_RULES.plural}/status",), ("patch",)),
        Permission("system", UVS_PODS.group, _UVS, READ),
        Permission("system", UVS_PODS.group, (UVS_PODS.plural,), ("create", "update", "delete")),
        Permission("system", UVS_PODS.group, tuple(f"{plural}/status" for plural in _UVS), ("patch",)),
        Permission("system", "coordination.k8s.io", ("leases",), ("create",)),
        Permission("system", "coordination.k8s.io", ("leases",), ("get", "update"), (AGENT_LEASE,)),
        Permission("system", "", ("events",), ("create", "patch")),
    )


def certificates(
    *,
    webhook: bool = True,
    gateway: bool = False,
    configurations: tuple[str, ...] = ("berth",),
    webhook_secret: str = WEBHOOK_SECRET,
) -> tuple[Permission, ...]:
    """It keeps Secrets of the release alone, and the caBundle of the release's webhook configurations.

    `webhook_secret` is the webhook's Secret as the release names it; those of the gateway are named alike everywhere.
    """
    secrets = (*([webhook_secret] if webhook else []), *([CA_SECRET, SERVING_SECRET, ADMIN_SECRET] if gateway else []))
    registered = tuple(r.plural for r in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)) if webhook else ()
    return (
        # A creation cannot be confined to a name: RBAC is asked before the name is known.
        Permission("release", "", ("secrets",), ("create",)),
        Permission("release", "", ("secrets",), (*READ, "update"), secrets),
        *(
            [Permission("cluster", MUTATING_WEBHOOKS.group, registered, (*READ, "patch"), configurations)]
            if registered
            else []
        ),
    )


def unregistering(*, configurations: tuple[str, ...] = ("berth",)) -> tuple[Permission, ...]:
    """The job before an uninstallation: it looks at the release's webhook configurations and deletes them."""
    registered = tuple(resource.plural for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS))
    return (Permission("cluster", MUTATING_WEBHOOKS.group, registered, ("get", "delete"), configurations),)


def tenants_role(role: str) -> str:
    """The name of the ClusterRole that a role is bound to in tenants' namespaces."""
    return f"berth-{role}-tenants"
