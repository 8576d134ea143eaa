"""The namespaces of tenants, as several checks look at them, and whether they have what limits them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Severity, depends_on, noted, or_default
from app.kube.resources import RESOURCE_QUOTAS, SERVICE_ACCOUNTS
from app.placement.model import TENANT_LABEL, tenant_of
from app.placement.settings import ConfinementSettings
from app.tenancy.controller.namespace_objects import ISOLATION, bounds_of, uncounted_in
from app.wire import JSON
from app.workloads.model import TENANTS, tenant_namespace
from app.workloads.settings import QuotaSettings


@dataclass(frozen=True, slots=True)
class TenantNamespace:
    """A Namespace and the tenant that it belongs to, by its label or its name."""

    tenant: str
    object: JSON

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def subject(self) -> str:
        return f"Namespace {self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """With the one that API servers give to each."""
        return objects.namespace_labels(self.object)

    @property
    def wanted_labels(self) -> dict[str, str]:
        """Its labels, with that of its tenant."""
        return {**self.labels, TENANT_LABEL: self.tenant}

    @property
    def is_labeled(self) -> bool:
        return bool(self.labels.get(TENANT_LABEL))

    def label(self) -> str:
        """The command that labels it for its tenant."""
        return commands.kubectl("label", "namespace", self.name, f"{TENANT_LABEL}={self.tenant}")


ANY = TenantNamespace("any", {"metadata": {"name": "tenant-any", "labels": {TENANT_LABEL: "any"}}})
"""Stands for those that are not there yet."""


async def tenant_namespaces(cluster: Cluster) -> list[TenantNamespace]:
    return [
        TenantNamespace(tenant, namespace)
        for namespace in await cluster.namespaces()
        if (tenant := tenant_of(namespace))
    ]


async def confines_tenants(cluster: Cluster) -> bool:
    """Whether the webhook keeps tenants' Pods on the tenants' nodes.

    What is registered decides for one that does not run here.
    """
    if await cluster.running("webhook"):
        return (await cluster.settings(ConfinementSettings)).confine_tenants
    # Berth is asked about templates only where it confines tenants.
    return any(webhook.covers("", "podtemplates", "CREATE") for webhook in await or_default(cluster.registered(), []))


async def bounded(cluster: Cluster) -> AsyncIterator[Finding]:
    """What is missing or differs; a namespace that is not ready is a finding of its Tenant."""
    settled = {
        tenant_namespace(tenant["metadata"]["name"])
        for tenant in await cluster.listed(TENANTS)
        if objects.condition(tenant, "NamespaceReady").get("status") != "False"
        and not (objects.unseen(tenant) or objects.spec(tenant).get("suspended"))
    }
    present = {
        namespace["metadata"]["name"]
        for namespace in (await cluster.namespaces() if settled else ())
        if not namespace["metadata"].get("deletionTimestamp")
    }
    if not (namespaces := sorted(settled & present)):
        return
    accounts = [account async for account in cluster.paged(SERVICE_ACCOUNTS, field_selector="metadata.name=default")]
    listed = [(RESOURCE_QUOTAS, quota) for quota in await cluster.listed(RESOURCE_QUOTAS)]
    listed += [(SERVICE_ACCOUNTS, account) for account in accounts]
    kept = {objects.subject(resource.kind, obj): obj for resource, obj in listed}
    fix, because = await commands.restart_role(cluster, "controller"), depends_on("controller")
    bounds = bounds_of((await cluster.settings(QuotaSettings, role="controller")).quota)
    for namespace, bound in ((namespace, bound) for namespace in namespaces for bound in bounds):
        it = objects.named(bound.resource, bound.name, namespace)
        obj = kept.get(it.subject)
        if obj is None:
            problem = "is missing"
        elif not bound.holds_in(obj):
            problem = "differs from what the controller keeps there"
        elif bound.resource == RESOURCE_QUOTAS and (uncounted := uncounted_in(obj)):
            problem = f"does not hold: kube-controller-manager has not counted {', '.join(uncounted)}"
        else:
            continue
        severity = Severity.error if bound.name == ISOLATION else Severity.warning
        yield noted(severity, "BERTH2007", it, problem, case=bound.name, command=fix, because=because)
