"""The caches of a gateway: tenants, what they store, and the Pods that they may see."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

import structlog

from app.kube.client import KubeClient
from app.kube.kit import Kit
from app.kube.resources import PODS
from app.kube.store import Store
from app.tenancy.gateway.stored_workloads import Known, ledger_of, project_known
from app.tenancy.gateway.views import BY_NAMESPACE, View, view_pod, view_rule
from app.tenancy.link import holder_of, link_of
from app.tenancy.model import Tenant, project_tenant
from app.wire import JSON
from app.workloads.model import COMPANION, RESOURCE_OWNER, TENANT_RULES, TENANTS, WORKLOADS

_BY_NAME, _BY_CLUSTER = "name", "cluster"
COMPANION_PODS, RESOURCE_PODS = "CompanionPod", "ResourcePod"
"""What the two caches of Pods are called in the metrics."""

log = structlog.get_logger(__name__)


class Sources:
    """The caches: tenants, Workloads, tenant rules, and the Pods that tenants may see. `run` fills them."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self._kit = kit = Kit(client)
        by_namespace = {BY_NAMESPACE: _namespace}
        self.tenants: Store[Tenant] = kit.cache(
            TENANTS,
            _known_tenant,
            indices={
                _BY_NAME: lambda tenant: [name.lower() for name in tenant.names],
                _BY_CLUSTER: lambda tenant: [tenant.link.cluster],
            },
        )
        self.workloads: Store[Known] = kit.cache(WORKLOADS, project_known, indices=by_namespace)
        self.rules: Store[View] = kit.cache(TENANT_RULES, view_rule, indices=by_namespace)
        # A selector has no "or": one cache for each of the two marks.
        self.companions: Store[View] = kit.cache(
            PODS, view_pod, indices=by_namespace, labels=COMPANION, called=COMPANION_PODS
        )
        self.pods: Store[View] = kit.cache(
            PODS, view_pod, indices=by_namespace, labels=f"{RESOURCE_OWNER},!{COMPANION}", called=RESOURCE_PODS
        )
        self.ledger = ledger_of(self.workloads)

    def tenants_named(self, name: str) -> list[Tenant]:
        """The tenants that list this name (in lower case) of a certificate."""
        return self.tenants.by_index(_BY_NAME, name)

    def holder_of(self, cluster: str) -> str:
        """The tenant that has this cluster; "" where it is noted on none."""
        return holder_of(
            cluster, ((tenant.name, tenant.link) for tenant in self.tenants.by_index(_BY_CLUSTER, cluster))
        )

    def rivals_of(self, name: str) -> list[Tenant]:
        """The other tenants on which the cluster of this tenant is noted; none where it has none, or another has it.

        None either while the cache may show what never was.
        """
        tenant = self.tenants.get("", name)
        if tenant is None or self.tenants.in_doubt or self.holder_of(tenant.link.cluster) != name:
            return []
        return [other for other in self.tenants.by_index(_BY_CLUSTER, tenant.link.cluster) if other.name != name]

    def count_workloads(self, namespace: str) -> int:
        return self.workloads.count(BY_NAMESPACE, namespace)

    def workloads_in(self, namespace: str) -> list[Known]:
        return self.workloads.by_index(BY_NAMESPACE, namespace)

    def count_rules(self, namespace: str) -> int:
        return self.rules.count(BY_NAMESPACE, namespace)

    def unsynced(self) -> list[str]:
        """What has not been loaded for the first time, one line each."""
        return self._kit.unsynced()

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return self._kit.waiting()

    async def run(self) -> None:
        await self._kit.run()


def _namespace(value: Known | View) -> Iterable[Hashable]:
    return (value.namespace,)


def _known_tenant(obj: JSON) -> Tenant | None:
    """The tenant, or None for one that cannot be read: its callers are refused rather than judged by an old version."""
    try:
        return replace(project_tenant(obj), link=link_of(obj))
    except ValueError as error:
        log.warning("Tenant is not usable; its callers are refused", tenant=obj["metadata"]["name"], problem=str(error))
        return None
