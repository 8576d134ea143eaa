"""The namespaces of tenants, as several checks look at them."""

from __future__ import annotations

from dataclasses import dataclass

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.placement.model import TENANT_LABEL, tenant_of
from app.placement.settings import ConfinementSettings
from app.wire import JSON


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
