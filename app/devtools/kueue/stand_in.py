"""A stand-in for Kueue's scheduler. It admits Workloads, preempts, and writes the statuses of queues.

It has quota of flavors, overheads of RuntimeClasses, FIFO and StrictFIFO, preemption by priority within a ClusterQueue,
stop policies, namespace selectors, deactivation and reclaimable Pods. It has no cohorts, no borrowing, no fair sharing,
no admission checks, no topologies, no partial admission, and does not time executions. It makes no Workloads: that is
for who owns jobs.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import structlog

from app.appwrappers.kueue.model import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from app.devtools.kueue.queues import World, cluster_queue_status, local_queue_status
from app.devtools.kueue.scheduling import plan
from app.devtools.kueue.workloads import requeue_time, status_of
from app.devtools.sandbox.standins.reconciling import Watched, write_status
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.own_writes import OwnWrites
from app.kube.resources import NAMESPACES, Resource
from app.kube.store import key_of
from app.wire import JSON

log = structlog.get_logger(__name__)
_ALL = ""
_SOON = 0.2
_LIFETIME = 30.0
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)


class KueueStandIn:
    """Runs beside the API server of `client`, which serves the kinds of `app.devtools.kueue.definitions`."""

    def __init__(self, client: KubeClient) -> None:
        self._client, self._watched = client, Watched(client)
        kinds = (WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, RESOURCE_FLAVORS, NAMESPACES, RUNTIME_CLASSES)
        stores = tuple(self._watched.store(kind) for kind in kinds)
        self._workloads, self._local_queues, self._cluster_queues, self._flavors, *rest = stores
        self._namespaces, self._runtime_classes = rest
        # Quota that was given must count before the watch shows it.
        self._own: OwnWrites[JSON] = OwnWrites(
            lambda key: self._workloads.get(*key),
            lifetime=_LIFETIME,
            reached=lambda shown, written: _version(shown) >= _version(written),
            uid=lambda workload: str(workload["metadata"]["uid"]),
        )
        self._own.follow(self._workloads)
        self._controller: Controller[str] = Controller(
            "kueue-stand-in", self._pass, stores=stores, keys=lambda: (_ALL,), workers=1, turn=None
        )
        for store in stores:
            store.subscribe(lambda *_: self._controller.enqueue(_ALL))

    async def run(self) -> None:
        """Runs until cancelled; faults of the API server are waited out."""
        log.info("a stand-in schedules Workloads; it is not Kueue", server=self._client.server)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watched.run())
            group.create_task(self._controller.run())

    async def _pass(self, _key: str) -> Result:
        now, world, again = datetime.now(UTC), self._world(), False
        self._own.expire()
        workloads = {key_of(one): one for one in world.workloads}
        for key, status in plan(world, now).items():
            again |= await self._write(WORKLOADS, workloads[key], status)
        world = self._world()
        for queue in world.cluster_queues.values():
            again |= await self._write(CLUSTER_QUEUES, queue, cluster_queue_status(queue, world, now))
        for queue in world.local_queues.values():
            again |= await self._write(LOCAL_QUEUES, queue, local_queue_status(queue, world, now))
        later = [(at - now).total_seconds() for one in world.workloads if (at := requeue_time(one)) and at > now]
        return RequeueAfter(_SOON) if again else RequeueAfter(min(later)) if later else Done()

    def _world(self) -> World:
        found = (self._own.get(key) for key in self._workloads.keys())  # noqa: SIM118  # not a dict
        return World(
            workloads=[one for one in found if one is not None],
            local_queues={key_of(one): one for one in self._local_queues.values()},
            cluster_queues={one["metadata"]["name"]: one for one in self._cluster_queues.values()},
            flavors={one["metadata"]["name"]: one for one in self._flavors.values()},
            namespaces={
                one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in self._namespaces.values()
            },
            overheads={
                one["metadata"]["name"]: (one.get("overhead") or {}).get("podFixed") or {}
                for one in self._runtime_classes.values()
            },
        )

    async def _write(self, resource: Resource, obj: JSON, status: JSON) -> bool:
        """Make this the object's status; True for a Workload that another client has changed meanwhile."""
        fields = {**dict.fromkeys(status_of(obj)), **status}
        version = obj["metadata"]["resourceVersion"] if resource is WORKLOADS else None
        try:
            answer = await write_status(self._client, resource, obj, fields, version=version)
        except ApiError as error:
            if error.rejected:  # the others must not wait for it
                log.warning("status not written", kind=resource.kind, key=key_of(obj), error=str(error))
            elif not (error.conflict or error.not_found):
                raise
            return error.conflict
        if answer is not None and resource is WORKLOADS:
            self._own.wrote(key_of(obj), answer)
        return False


def _version(obj: JSON) -> int:
    return int(obj["metadata"]["resourceVersion"])
