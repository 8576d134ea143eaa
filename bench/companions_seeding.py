"""Puts what a run needs into an API server, and finds out what is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from app.devtools.clusters import definitions
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, PODS, Resource
from app.wire import JSON
from app.workloads.model import ADMIN_RULES, SYSTEM_NAMESPACE, TENANT_RULES, WORKLOADS
from bench.companions_objects import MATCHES, NAMESPACE, namespaces

_CONCURRENCY = 16


async def seed(client: KubeClient, *, workloads: Sequence[JSON], rules: Sequence[JSON]) -> None:
    """The definitions, the namespaces, the rules, the workloads."""
    await definitions.install(client, definitions.INFRA)
    await create(client, NAMESPACES, namespaces())
    await create(client, TENANT_RULES, rules)
    await create(client, WORKLOADS, workloads)


async def create(client: KubeClient, resource: Resource, objects: Iterable[JSON]) -> None:
    waiting = iter(objects)

    async def work() -> None:
        for obj in waiting:
            try:
                await client.create(resource, obj, namespace=obj["metadata"].get("namespace"))
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_CONCURRENCY):
            tasks.create_task(work())


async def count(client: KubeClient) -> int:
    """How many Pods there are, from a page of one: cheap enough to be asked while others are measured."""
    answer = await client.get_path(PODS.path(namespace=NAMESPACE) + "?limit=1")
    return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount") or 0)


async def version(client: KubeClient) -> int:
    """The version of the latest write, from the list of a resource that nothing here has."""
    page = await client.list_page(ADMIN_RULES, namespace=SYSTEM_NAMESPACE, limit=1)
    return int(page.resource_version)


async def everything(client: KubeClient, resource: Resource) -> list[JSON]:
    items: list[JSON] = []
    token = ""
    while True:
        page = await client.list_page(resource, namespace=NAMESPACE, continue_token=token)
        items += page.items
        if not (token := page.continue_token):
            return items


async def all_statuses(client: KubeClient, *, workloads: int, rules: int) -> bool:
    """Whether every workload's status names its companions, and every rule's has counted them."""
    found = await everything(client, TENANT_RULES)
    created = sum((rule.get("status") or {}).get("created") or 0 for rule in found)
    if len(found) != rules or created != workloads * MATCHES:
        return False
    return sum(map(_told, await everything(client, WORKLOADS))) == workloads


def _told(workload: JSON) -> bool:
    entries = ((workload.get("status") or {}).get("rules") or {}).get("tenant") or []
    return len(entries) == MATCHES and all(entry["status"].get("objRef") for entry in entries)
