"""Checks the quotas and ServiceAccounts with which the controller limits tenants' namespaces without a webhook."""

from __future__ import annotations

from collections.abc import Sequence

from app.doctor.cluster import Cluster
from app.doctor.deployed_settings import tenant_bounds
from app.doctor.model import Finding, Severity
from app.doctor.objects import condition, unseen
from app.kube.resources import NAMESPACES, RESOURCE_QUOTAS, SERVICE_ACCOUNTS
from app.placement.namespaces import tenant_of
from app.tenancy.controller.bounds import ISOLATION, OBJECTS, Bound, uncounted_in
from app.wire import JSON
from app.workloads.model import tenant_namespace

_FOLLOWS = {
    ISOLATION: (
        Severity.error,
        "while the webhook is away, a Pod of the tenant can keep Pods of other namespaces from every node",
    ),
    OBJECTS: (Severity.warning, "the tenant can fill the API server with objects, until no write succeeds"),
    "default": (Severity.warning, "Pods of the tenant get a token for the API server of this cluster"),
}


async def bound_findings(cluster: Cluster, check: str, tenants: Sequence[JSON], *, command: str) -> list[Finding]:
    """What is missing or differs; a namespace that is not ready is a finding of its Tenant."""
    names = {tenant_namespace(one["metadata"]["name"]) for one in tenants if _is_settled(one)}
    namespaces = [
        one["metadata"]["name"]
        for one in await cluster.listed(NAMESPACES) or []
        if tenant_of(one) and one["metadata"]["name"] in names and not one["metadata"].get("deletionTimestamp")
    ]
    if not namespaces:
        return []
    quotas = await cluster.listed(RESOURCE_QUOTAS) or []
    accounts = [one async for one in cluster.paged(SERVICE_ACCOUNTS, field_selector="metadata.name=default")]
    present = {
        (kind, one["metadata"]["namespace"], one["metadata"]["name"]): one
        for kind, found in ((RESOURCE_QUOTAS, quotas), (SERVICE_ACCOUNTS, accounts))
        for one in found
    }
    bounds = await tenant_bounds(cluster)
    return [
        Finding(check, severity, f"{bound.resource.kind} {namespace}/{bound.name}", problem, follows, command)
        for namespace in namespaces
        for bound in bounds
        if (problem := _problem(bound, present.get((bound.resource, namespace, bound.name))))
        for severity, follows in (_FOLLOWS[bound.name],)
    ]


def _is_settled(tenant: JSON) -> bool:
    suspended = (tenant.get("spec") or {}).get("suspended")
    return not suspended and not unseen(tenant) and condition(tenant, "NamespaceReady").get("status") != "False"


def _problem(bound: Bound, present: JSON | None) -> str:
    if present is None:
        return "is missing"
    if not bound.holds_in(present):
        return "differs from what the controller keeps there"
    if bound.resource == RESOURCE_QUOTAS and (missing := uncounted_in(present)):
        return f"does not hold: kube-controller-manager has not counted {', '.join(missing)}"
    return ""
