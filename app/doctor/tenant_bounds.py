"""Checks that tenants' namespaces have the quotas and the ServiceAccount that limit them without a webhook."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Severity, depends_on, noted
from app.kube.resources import RESOURCE_QUOTAS, SERVICE_ACCOUNTS
from app.tenancy.controller.namespace_objects import ISOLATION, bounds_of, uncounted_in
from app.workloads.model import TENANTS, tenant_namespace
from app.workloads.settings import QuotaSettings


async def missing(cluster: Cluster) -> AsyncIterator[Finding]:
    """What is missing or differs; a namespace that is not ready is a finding of its Tenant."""
    settled = {
        tenant_namespace(one["metadata"]["name"])
        for one in await cluster.listed(TENANTS)
        if objects.condition(one, "NamespaceReady").get("status") != "False"
        and not (objects.unseen(one) or objects.spec(one).get("suspended"))
    }
    present = {
        one["metadata"]["name"]
        for one in (await cluster.namespaces() if settled else ())
        if not one["metadata"].get("deletionTimestamp")
    }
    if not (namespaces := sorted(settled & present)):
        return
    accounts = [one async for one in cluster.paged(SERVICE_ACCOUNTS, field_selector="metadata.name=default")]
    found = [(RESOURCE_QUOTAS, one) for one in await cluster.listed(RESOURCE_QUOTAS)]
    found += [(SERVICE_ACCOUNTS, one) for one in accounts]
    kept = {objects.subject(resource.kind, one): one for resource, one in found}
    fix, because = await commands.restart_role(cluster, "controller"), depends_on("controller")
    bounds = bounds_of((await cluster.settings(QuotaSettings, role="controller")).quota)
    for namespace, bound in ((namespace, bound) for namespace in namespaces for bound in bounds):
        it = objects.named(bound.resource, bound.name, namespace)
        there = kept.get(it.subject)
        if there is None:
            problem = "is missing"
        elif not bound.holds_in(there):
            problem = "differs from what the controller keeps there"
        elif bound.resource == RESOURCE_QUOTAS and (uncounted := uncounted_in(there)):
            problem = f"does not hold: kube-controller-manager has not counted {', '.join(uncounted)}"
        else:
            continue
        severity = Severity.error if bound.name == ISOLATION else Severity.warning
        yield noted(severity, "BERTH2007", it, problem, case=bound.name, command=fix, because=because)
