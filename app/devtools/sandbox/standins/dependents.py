"""What controllers of workloads do alike: what an owner has, and Pods from its template.

What an owner has is read from the API server itself and from no cache, for an object that was just made must count.
"""

from __future__ import annotations

import copy
import hashlib

from app.kube.client import KubeClient
from app.kube.resources import PODS, Resource, controller_of, controller_reference
from app.wire import JSON, encode_json


async def owned(client: KubeClient, resource: Resource, owner: JSON) -> list[JSON]:
    """The objects of a kind that this object controls."""
    page = await client.list_page(resource, namespace=owner["metadata"]["namespace"])
    return [one for one in page.items if controller_of(one["metadata"]).get("uid") == owner["metadata"]["uid"]]


async def pods_of(client: KubeClient, owner: JSON) -> list[JSON]:
    """The Pods that this object controls, those that are ending left out; the oldest first."""
    mine = await owned(client, PODS, owner)
    present = [pod for pod in mine if not pod["metadata"].get("deletionTimestamp")]
    return sorted(present, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))


def pod_of(resource: Resource, owner: JSON) -> JSON:
    """A Pod from the owner's template, which the caller may change."""
    template: JSON = copy.deepcopy(owner["spec"]["template"])
    metadata: JSON = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    metadata |= {
        "generateName": f"{owner['metadata']['name'][:57]}-",
        "ownerReferences": [reference(resource, owner)],
    }
    return PODS.body(metadata, spec=template["spec"])


async def create_pod(client: KubeClient, owner: JSON, pod: JSON) -> JSON:
    """The Pod as it was made. Raises ApiError where it is refused, by a webhook for instance."""
    return await client.create(PODS, pod, namespace=owner["metadata"]["namespace"])


def reference(resource: Resource, owner: JSON) -> JSON:
    """The owner reference that makes `owner` the controller of what carries it."""
    metadata = owner["metadata"]
    return controller_reference(resource, metadata["name"], metadata["uid"]) | {"blockOwnerDeletion": True}


def is_ready(pod: JSON) -> bool:
    """Whether the Pod's condition Ready is true."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def phase(pod: JSON) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def template_hash(owner: JSON) -> str:
    """Ten characters that differ where the Pod template does."""
    return hashlib.sha256(encode_json(owner["spec"]["template"])).hexdigest()[:10]
