"""Deletion of namespaces: everything inside is deleted, and then the namespace is let go.

Lists the API server itself and not a cache, for here "empty" must be true. Needs no knowledge of kinds.
"""

from __future__ import annotations

from app.devtools.sandbox.standins.catalog import deletable_resources, every_object
from app.devtools.sandbox.standins.reconciling import reconciling
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, Resource
from app.kube.store import Key, Store
from app.wire import JSON

_AGAIN = 0.3


class NamespaceCollector:
    """`namespaces` holds whole Namespace objects."""

    def __init__(self, client: KubeClient, namespaces: Store[JSON]) -> None:
        self._client = client
        self._namespaces = namespaces
        self.controller = reconciling("namespaces", self._reconcile, namespaces, workers=1)

    async def _reconcile(self, key: Key) -> float | None:
        namespace = self._namespaces.get(*key)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return None
        finalizers = (namespace.get("spec") or {}).get("finalizers", [])
        if "kubernetes" not in finalizers:
            return None
        left = 0
        for resource in await deletable_resources(self._client):
            if resource.namespaced:
                left += await delete_all(self._client, resource, key[1])
        if left:
            return _AGAIN
        # With the last finalizer the API server lets the namespace go.
        kept = [one for one in finalizers if one != "kubernetes"]
        body = {**namespace, "spec": {**namespace["spec"], "finalizers": kept}}
        await self._client.replace(NAMESPACES, key[1], body, subresource="finalize")
        return None


async def delete_all(client: KubeClient, resource: Resource, namespace: str) -> int:
    """Deletes what is there; the answer is how many objects there were, also those already on their way out."""
    count = 0
    try:
        async for item in every_object(client, resource, namespace):
            count += 1
            if not item["metadata"].get("deletionTimestamp"):
                await _delete(client, resource, namespace, item)
    except ApiError as error:
        # The resource has gone meanwhile, and its objects with it.
        if not error.not_found:
            raise
    return count


async def _delete(client: KubeClient, resource: Resource, namespace: str, item: JSON) -> None:
    metadata = item["metadata"]
    try:
        await client.delete(resource, metadata["name"], namespace=namespace, uid=metadata["uid"])
    except ApiError as error:
        if not (error.not_found or error.conflict):
            raise
