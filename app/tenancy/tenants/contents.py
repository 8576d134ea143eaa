"""What the infra cluster holds of a tenant, for the question before a removal."""

from __future__ import annotations

from collections.abc import Callable

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import PODS, Resource
from app.kube.retry import every_item
from app.wire import JSON
from app.workloads.model import COMPANION, SYSTEM_NAMESPACE, WORKLOAD, WORKLOADS, tenant_namespace


async def contents_of(client: KubeClient, tenant: str) -> str:
    """What the infra cluster holds of the tenant at this moment, as text.

    Companions are those of admin rules in the system namespace too; other Pods are those that are no companions.
    """
    namespace = tenant_namespace(tenant)

    def of_tenant(pod: JSON) -> bool:
        return str((pod["metadata"].get("annotations") or {}).get(WORKLOAD)).startswith(f"{namespace}/")

    async def count(
        resource: Resource,
        where: str = namespace,
        selector: str = "",
        wanted: Callable[[JSON], bool] = lambda _: True,
    ) -> int:
        items = every_item(
            lambda token: client.list_page(resource, namespace=where, label_selector=selector, continue_token=token)
        )
        try:
            return sum([wanted(item) async for item in items])
        except ApiError as error:
            if error.not_found:
                return 0  # the cluster does not know the kind
            raise

    companions, pods = await count(PODS, selector=COMPANION), await count(PODS)
    of_admin = await count(PODS, SYSTEM_NAMESPACE, COMPANION, of_tenant)
    counts = {
        "workload": await count(WORKLOADS),
        "companion": companions + of_admin,
        "other Pod": pods - companions,
    }
    return ", ".join(f"{number} {noun}{'' if number == 1 else 's'}" for noun, number in counts.items())
