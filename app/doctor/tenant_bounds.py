"""Checks that tenants' namespaces have the quotas and the ServiceAccount that limit them without a webhook."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Severity, depends_on, noted
from app.kube.resources import RESOURCE_QUOTAS, SERVICE_ACCOUNTS
from app.tenancy.controller.namespace_objects import ISOLATION, OBJECTS, bounds_of, uncounted_in
from app.workloads.model import TENANTS, tenant_namespace
from app.workloads.settings import QuotaSettings

_UNBOUNDED = {
    ISOLATION: (
        Severity.error,
        "while the webhook is away, a Pod of the tenant can keep Pods of other namespaces from every node",
    ),
    OBJECTS: (Severity.warning, "the tenant can fill the API server with objects, until no write succeeds"),
    "default": (Severity.warning, "Pods of the tenant get a token for the API server of this cluster"),
}
"""What follows where the object of this name is missing in a tenant's namespace."""


async def missing(cluster: Cluster) -> AsyncIterator[Finding]:
    """What is missing or differs; a namespace that is not ready is a finding of its Tenant."""
    settled = {
        tenant_namespace(one["metadata"]["name"])
        for one in await cluster.listed(TENANTS)
        if objects.condition(one, "NamespaceReady").get("status") != "False"
        and not (objects.unseen(one) or (one.get("spec") or {}).get("suspended"))
    }
    present = {
        one["metadata"]["name"]
        for one in (await cluster.namespaces() if settled else ())
        if not one["metadata"].get("deletionTimestamp")
    }
    if not (namespaces := sorted(settled & present)):
        return
    quotas = await cluster.listed(RESOURCE_QUOTAS)
    accounts = [one async for one in cluster.paged(SERVICE_ACCOUNTS, field_selector="metadata.name=default")]
    kept = {
        (kind, one["metadata"]["namespace"], one["metadata"]["name"]): one
        for kind, found in ((RESOURCE_QUOTAS, quotas), (SERVICE_ACCOUNTS, accounts))
        for one in found
    }
    command = await commands.restart_role(cluster, "controller")
    because = depends_on("controller")
    bounds = bounds_of((await cluster.settings(QuotaSettings, role="controller")).quota)
    for namespace, bound in ((namespace, bound) for namespace in namespaces for bound in bounds):
        found = kept.get((bound.resource, namespace, bound.name))
        if found is None:
            problem = "is missing"
        elif not bound.holds_in(found):
            problem = "differs from what the controller keeps there"
        elif bound.resource == RESOURCE_QUOTAS and (uncounted := uncounted_in(found)):
            problem = f"does not hold: kube-controller-manager has not counted {', '.join(uncounted)}"
        else:
            continue
        unbounded, follows = _UNBOUNDED[bound.name]
        yield noted(
            unbounded,
            "BERTH2007",
            f"{bound.resource.kind} {namespace}/{bound.name}",
            problem,
            follows,
            command,
            because=because,
        )
