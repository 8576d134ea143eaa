"""Which resources a cluster serves, by its discovery documents, and their objects: for what treats all kinds alike."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.retry import every_item
from app.wire import JSON

_NEEDED = frozenset({"list", "watch", "delete"})


async def deletable_resources(client: KubeClient) -> list[Resource]:
    """Every resource that can be listed, watched and deleted, each in its group's preferred version.

    A group whose document cannot be read now (an aggregated API that is down) is left out.
    """
    documents = [("", "v1", await client.get_path("/api/v1"))]
    for group in (await client.get_path("/apis")).get("groups") or []:
        preferred: JSON = group.get("preferredVersion") or (group.get("versions") or [{}])[0]
        try:
            document = await client.get_path(f"/apis/{preferred['groupVersion']}")
        except ApiError as error:
            if error.status in (404, 503):
                continue
            raise
        documents.append((group["name"], preferred["version"], document))
    return [
        Resource(group, version, entry["name"], entry["kind"], bool(entry.get("namespaced")))
        for group, version, document in documents
        for entry in document.get("resources") or []
        if "/" not in entry["name"] and set(entry.get("verbs") or ()) >= _NEEDED
    ]


async def every_object(client: KubeClient, resource: Resource, namespace: str) -> AsyncIterator[JSON]:
    """Every object of a kind in the namespace, none where the kind is no longer served. They do not say their kind."""
    try:
        async for item in every_item(
            lambda token: client.list_page(resource, namespace=namespace, continue_token=token)
        ):
            yield item
    except ApiError as error:
        if not error.not_found:
            raise
