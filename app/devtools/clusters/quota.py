"""Quota in a cluster of the sandbox: Kueue's kinds, a stand-in for its scheduler, and a queue for namespace default."""

from __future__ import annotations

from app.appwrappers.kueue.model import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS
from app.devtools.clusters.definitions import define
from app.devtools.clusters.parts import Parts
from app.devtools.kueue.definitions import KINDS, kueue_definitions
from app.devtools.kueue.stand_in import KueueStandIn
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.wire import JSON

CPUS = 4
QUEUE = "user-queue"
NAMESPACE = "default"
_CLUSTER_QUEUE, _FLAVOR = "cluster-queue", "default-flavor"
_QUOTAS: JSON = {
    "coveredResources": ["cpu", "memory"],
    "flavors": [
        {
            "name": _FLAVOR,
            "resources": [{"name": "cpu", "nominalQuota": CPUS}, {"name": "memory", "nominalQuota": "64Gi"}],
        }
    ],
}
_OBJECTS: tuple[tuple[Resource, str, JSON], ...] = (
    (RESOURCE_FLAVORS, _FLAVOR, {}),
    (
        CLUSTER_QUEUES,
        _CLUSTER_QUEUE,
        {
            "namespaceSelector": {},
            "resourceGroups": [_QUOTAS],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        },
    ),
    (LOCAL_QUEUES, QUEUE, {"clusterQueue": _CLUSTER_QUEUE}),
)


async def give_quota(client: KubeClient, parts: Parts) -> None:
    """To Workloads of namespace default that name the queue."""
    await define(client, KINDS, kueue_definitions())
    for resource, name, spec in _OBJECTS:
        namespace = NAMESPACE if resource.namespaced else None
        await client.apply(resource, name, resource.body({"name": name}, spec=spec), namespace=namespace)
    parts.run(KueueStandIn(client))
