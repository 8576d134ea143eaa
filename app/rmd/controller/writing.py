"""Statuses are written whole, or one part of one, and only of the object that was read."""

from __future__ import annotations

from app.admission.patch import pointer
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.retry import if_there
from app.kube.store import Key
from app.wire import JSON


async def write_status(
    client: KubeClient, resource: Resource, key: Key, uid: str, value: JSON | None, *, below: tuple[str, ...] = ()
) -> None:
    """Put a value in the place of the status, or of what is `below` it; None removes it. Nothing where it is gone.

    An API server does not compare the UID in a merge patch of a status. So it is tested: raises ApiError where another
    object has the name now.
    """
    path = pointer("status", *below)
    change = {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}
    operations = [{"op": "test", "path": "/metadata/uid", "value": uid}, change]
    namespace, name = key
    request = client.patch(resource, name, operations, patch_type="json", namespace=namespace, subresource="status")
    await if_there(request)
