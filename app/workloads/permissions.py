"""What companions and the statuses of rules need at an API server: kinds, reviews and permissions."""

from __future__ import annotations

from dataclasses import replace

from app.placement.model import OF_TENANT_BY_NAME, TENANT_LABEL
from app.wiring import (
    CONDITIONS,
    CONFINED,
    NEVER_ASKED,
    READ,
    Condition,
    Permission,
    Permissions,
    Requirement,
    ReviewRule,
    Term,
    Webhook,
)
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
    resources: dict[str, tuple[str, ...]] = {}
    for group, kind in (*TEMPLATES, *CLAIMS):
        resources[group] = (*resources.get(group, ()), f"{kind.lower()}s")
    return resources | {"": (*resources[""], "pods/ephemeralcontainers")}


REVIEWS = (
    ReviewRule("objects", WORKLOAD_RULES.group, WORKLOAD_RULES.version, (WORKLOAD_RULES.plural,)),
    *(ReviewRule("tenants", group, _VERSIONS.get(group, "v1"), resources) for group, resources in _isolated().items()),
)
_ISOLATED = Webhook(
    "tenant-isolation",
    "tenants",
    values="tenantIsolation",
    namespaces=(Requirement(TENANT_LABEL, "Exists"), NEVER_ASKED),
    when=CONFINED,
)
WEBHOOKS = (
    # Of all wings. No namespace is exempt: no Pod of Berth or of the cluster waits for these objects, and a wrong one
    # would run with the rights of the controller. Kinds that the cluster does not have do no harm here.
    Webhook("rules", "objects", values="rules", scope="*", when="webhook.webhooks.rules.enabled"),
    # No opt-out, no selector of objects, no exempt namespaces: what a Pod may do to Pods of others does not depend on
    # its author.
    _ISOLATED,
    # For a tenant's namespace that has lost its label. Selectors cannot match a prefix of a name. Without the condition
    # every Pod of the cluster would wait for Berth: without conditions there is no such webhook.
    replace(
        _ISOLATED,
        name="tenant-isolation-by-name",
        namespaces=(Requirement(TENANT_LABEL, "DoesNotExist"), NEVER_ASKED),
        conditions=(Condition("is-named-as-of-a-tenant", (Term(OF_TENANT_BY_NAME),)),),
        when=f"{CONFINED},{CONDITIONS}",
    ),
)

PERMISSIONS: Permissions = {
    "workloads": (
        Permission("cluster", "", ("pods",), ("list", "watch")),
        Permission("tenants", "", ("pods",), _COMPANIONS),
        # The companions of the admin's rules are in `universe`, beside these rules.
        Permission("system", "", ("pods",), _COMPANIONS),
        Permission("cluster", _GROUP, _TENANTS, ("list", "watch")),
        Permission("cluster", _GROUP, tuple(f"{plural}/status" for plural in _TENANTS), ("patch",)),
        Permission("system", _GROUP, (ADMIN_RULES.plural,), ("list", "watch")),
        Permission("system", _GROUP, (f"{ADMIN_RULES.plural}/status",), ("patch",)),
    ),
    "ui": (
        Permission("cluster", _GROUP, tuple(resource.plural for resource in INFRA), READ),
        Permission("cluster", WORKLOAD_RULES.group, (WORKLOAD_RULES.plural,), READ),
    ),
}
