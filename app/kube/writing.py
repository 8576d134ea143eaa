"""Writes to an object that was read: none to another one of its name. One that is gone is no error, but for `merge`.

Three forms, by what the API server compares: server-side apply and a JSON patch the UID, a merge patch the version. A
merge patch of a status is not held to a UID.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.retry import if_there
from app.kube.store import Key
from app.wire import JSON, pointer


class Read(Protocol):
    """What is kept of an object that is to be written. `version` is its resourceVersion."""

    @property
    def key(self) -> Key: ...

    @property
    def version(self) -> str | int: ...


async def apply_status(
    client: KubeClient, resource: Resource, key: Key, uid: str, status: JSON, *, manager: str
) -> JSON | None:
    """Make `status` all that the manager says of the object. Returns the object, None where it is gone.

    Raises ApiError: also where another object has the name (422, as a UID is immutable).
    """
    namespace, name = key
    metadata = {"name": name, "uid": uid} | ({"namespace": namespace} if namespace else {})
    body = resource.body(metadata, status=status)
    return await if_there(
        client.apply(resource, name, body, namespace=namespace or None, field_manager=manager, subresource="status")
    )


async def merge(client: KubeClient, resource: Resource, obj: Read, change: JSON, *, subresource: str = "") -> JSON:
    """Merge a change into the object as it was read. Raises ApiError: a conflict where it has changed."""
    namespace, name = obj.key
    return await client.patch(
        resource,
        name,
        change,
        patch_type="merge",
        namespace=namespace,
        version=str(obj.version),
        subresource=subresource or None,
    )


def finalized(finalizers: Iterable[str], finalizer: str, *, present: bool) -> JSON:
    """The change after which an object with these finalizers has ours, as the last of them, or has it not."""
    others = [other for other in finalizers if other != finalizer]
    return {"metadata": {"finalizers": [*others, finalizer] if present else others or None}}


async def patch_same(
    client: KubeClient, resource: Resource, key: Key, uid: str, *changes: JSON, **options: Any
) -> None:
    """Carry out the operations of a JSON patch. Nothing where the object is gone.

    Raises ApiError: also where another object has the name (422).
    """
    operations = [{"op": "test", "path": "/metadata/uid", "value": uid}, *changes]
    namespace, name = key
    await if_there(client.patch(resource, name, operations, patch_type="json", namespace=namespace, **options))


async def write_status(
    client: KubeClient, resource: Resource, key: Key, uid: str, value: JSON | None, *, below: tuple[str, ...] = ()
) -> None:
    """Put a value in the place of the status, or of what is `below` it; None removes it. As `patch_same`."""
    path = pointer("status", *below)
    change = {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}
    await patch_same(client, resource, key, uid, change, subresource="status")
