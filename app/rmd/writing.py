"""Objects are patched only where they are those that were read.

An API server does not compare the UID in a merge patch of a status. So a JSON patch tests it.
"""

from __future__ import annotations

from typing import Any

from app.admission.patch import pointer
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.retry import if_there
from app.kube.store import Key
from app.wire import JSON


async def patch_same(
    client: KubeClient, resource: Resource, key: Key, uid: str, *changes: JSON, **options: Any
) -> None:
    """Carry out the operations of a JSON patch. Nothing where the object is gone.

    Raises ApiError where another object has the name now.
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
