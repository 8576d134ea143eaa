"""Clusters of hundreds of nodes and thousands of Pods, which KWOK runs: their nodes, and all objects of a kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from app.kube.client import KubeClient
from app.kube.resources import NODES, PODS, Resource
from app.kube.retry import every_item
from bench.companions_seeding import create

JSON = dict[str, Any]
MANY = 200
"""Nodes of a cluster."""


def node(name: str, *, labels: JSON | None = None, **capacity: str) -> JSON:
    """A node with room for many Pods, and so much of other resources."""
    resources = {"cpu": "32", "memory": "256Gi", "pods": "250", **capacity}
    body = NODES.body({"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}})
    return body | {"status": {"capacity": resources, "allocatable": resources}}


async def add_nodes(client: KubeClient, nodes: Sequence[JSON]) -> None:
    """Create them, open for Pods: the taint of a new node stays where no controller looks at heartbeats."""
    await create(client, NODES, nodes)
    for name in (body["metadata"]["name"] for body in nodes):
        await client.patch(NODES, name, {"spec": {"taints": None}}, patch_type="merge")


async def all_of(
    client: KubeClient, resource: Resource, *, namespace: str | None = None, labels: str = ""
) -> list[JSON]:
    """All objects of a kind, of one namespace or with these labels where these are given."""

    def page(token: str) -> Any:
        return client.list_page(resource, namespace=namespace, label_selector=labels, continue_token=token)

    return [obj async for obj in every_item(page)]


async def phases(client: KubeClient, *, namespace: str | None = None, labels: str = "") -> Counter[str]:
    """How many Pods are in each phase; those that are being deleted count as "Terminating"."""
    pods = await all_of(client, PODS, namespace=namespace, labels=labels)
    return Counter("Terminating" if "deletionTimestamp" in pod["metadata"] else pod["status"]["phase"] for pod in pods)
