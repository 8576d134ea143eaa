"""What the controllers of ReplicaSets and Jobs share: the Pods of an owner, read live, and one more from its template.

Reads the API server itself and no cache, for a Pod that was just made must count.
"""

from __future__ import annotations

import copy

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import PODS, Resource
from app.kube.store import Key
from app.wire import JSON


async def pods_of(client: KubeClient, owner: JSON) -> list[JSON]:
    """The Pods that this object controls, those that are ending left out; the oldest first."""
    metadata = owner["metadata"]
    page = await client.list_page(PODS, namespace=metadata["namespace"])
    mine = [pod for pod in page.items if controller_of(pod) == metadata["uid"]]
    present = [pod for pod in mine if not pod["metadata"].get("deletionTimestamp")]
    return sorted(present, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))


async def create_pod(client: KubeClient, resource: Resource, owner: JSON) -> None:
    """One Pod from the owner's template. Raises ApiError where it is refused, by a webhook for instance."""
    template: JSON = copy.deepcopy(owner["spec"]["template"])
    metadata: JSON = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    metadata |= {
        "generateName": f"{owner['metadata']['name'][:57]}-",
        "ownerReferences": [reference(resource, owner)],
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    await client.create(PODS, body, namespace=owner["metadata"]["namespace"])


async def delete_pod(client: KubeClient, pod: JSON) -> None:
    """Ask for the end of this very Pod; one that is gone already is no fault."""
    metadata = pod["metadata"]
    try:
        await client.delete(PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
    except ApiError as error:
        if not (error.not_found or error.conflict):
            raise


async def write_status(client: KubeClient, resource: Resource, obj: JSON, status: JSON) -> None:
    """Write what differs from the status that the object has."""
    before: JSON = obj.get("status") or {}
    if all(before.get(name) == value for name, value in status.items()):
        return
    metadata = obj["metadata"]
    body = {"metadata": {"uid": metadata["uid"]}, "status": status}
    await client.patch(
        resource, metadata["name"], body, patch_type="merge", namespace=metadata["namespace"], subresource="status"
    )


def reference(resource: Resource, owner: JSON) -> JSON:
    """The owner reference that makes `owner` the controller of what carries it."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: JSON) -> str:
    """The UID of the object's controller, "" where it has none."""
    owners = obj["metadata"].get("ownerReferences") or []
    return next((str(one.get("uid")) for one in owners if one.get("controller")), "")


def owner_key(pod: JSON | None, resource: Resource) -> Key | None:
    """The key of the Pod's controller where that is of this kind."""
    if pod is None:
        return None
    owners = pod["metadata"].get("ownerReferences") or []
    names = (one["name"] for one in owners if one.get("controller") and one.get("kind") == resource.kind)
    name = next(names, None)
    return (pod["metadata"]["namespace"], name) if name is not None else None


def is_ready(pod: JSON) -> bool:
    """Whether the Pod's condition Ready is true."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def phase(pod: JSON) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")
