"""Counts what is deleted with a tenant, for the question before a removal. Reads only."""

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
    companions = await _count(client, PODS, namespace=namespace, selector=COMPANION)
    pods = await _count(client, PODS, namespace=namespace)
    of_admin = await _count(
        client, PODS, namespace=SYSTEM_NAMESPACE, selector=COMPANION, wanted=lambda pod: _is_of(pod, namespace)
    )
    counts = {
        "workload": await _count(client, WORKLOADS, namespace=namespace),
        "companion": companions + of_admin,
        "other Pod": pods - companions,
    }
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items())


def _is_of(pod: JSON, namespace: str) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return str(annotations.get(WORKLOAD) or "").startswith(f"{namespace}/")


async def _count(
    client: KubeClient,
    resource: Resource,
    *,
    namespace: str,
    selector: str = "",
    wanted: Callable[[JSON], bool] = lambda _: True,
) -> int:
    """None of a kind that the cluster does not know."""
    items = every_item(
        lambda token: client.list_page(resource, namespace=namespace, label_selector=selector, continue_token=token)
    )
    try:
        return sum([wanted(item) async for item in items])
    except ApiError as error:
        if error.not_found:
            return 0
        raise
