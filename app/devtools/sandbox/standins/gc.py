"""Garbage collection: what has lost its last owner goes, and an owner that waits for its dependents is let go.

Background deletion, the foregroundDeletion finalizer and the orphan finalizer; asks the API server before it deletes
anything on account of an owner that the caches do not show.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from app.devtools.sandbox.standins.ownership import Graph, Item, Owner
from app.errors import ApiError
from app.kube.client import KubeClient, Propagation
from app.kube.controller import Controller, Done, RequeueAfter, Result, by_namespace
from app.kube.resources import Resource
from app.kube.store import Key
from app.wire import JSON

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"

Work = tuple[Resource, Key]
OwnerState = Literal["present", "waiting", "absent"]


class GarbageCollector:
    """Deletes in the whole cluster what has lost its owners. `run` it once, until cancelled."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._graph = Graph(client, self._changed)
        self._controller: Controller[Work] = Controller(
            "garbage-collector", self._reconcile, workers=4, resync=None, turn=lambda work: by_namespace(work[1])
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run())
            group.create_task(self._graph.run())

    def _changed(self, resource: Resource, key: Key, old: Item | None, new: Item | None) -> None:
        if new is not None and (new.owners or new.deleting):
            self._controller.enqueue((resource, key))
        for item in (old, new):
            # Dependents of what is gone, owners of what has changed.
            if item is not None:
                self._wake_relatives(item, gone=new is None)

    def _wake_relatives(self, item: Item, *, gone: bool) -> None:
        if gone:
            for resource, dependent in self._graph.dependents(item.uid):
                self._controller.enqueue((resource, (dependent.namespace, dependent.name)))
        for owner in item.owners:
            found = self._graph.find(owner.uid)
            if found is not None and found[1].deleting:
                self._controller.enqueue((found[0], (found[1].namespace, found[1].name)))

    async def _reconcile(self, work: Work) -> Result:
        resource, key = work
        item = self._graph.get(resource, key)
        if item is None:
            return Done()
        if not self._graph.synced:
            return RequeueAfter(0.5)
        try:
            if item.deleting:
                await self._release(resource, item)
            elif item.owners:
                await self._collect(resource, item)
        except ApiError as error:
            if error.conflict:
                return RequeueAfter(0.2)
            if not error.not_found:
                raise
        return Done()

    async def _collect(self, resource: Resource, item: Item) -> None:
        """Deletes the object if none of its owners is left, or only owners that wait for it."""
        states = [(owner, await self._state(item, owner)) for owner in item.owners]
        if any(state == "present" for _, state in states):
            dangling = {owner.uid for owner, state in states if state != "present"}
            if dangling:
                await self._drop_owners(resource, item, dangling)
            return
        policy = self._policy(item, waits=any(state == "waiting" for _, state in states))
        # Without a policy, an API server leaves the Pods of a Job.
        await self._client.delete(
            resource, item.name, namespace=item.namespace or None, uid=item.uid, propagation_policy=policy
        )

    def _policy(self, item: Item, *, waits: bool) -> Propagation:
        """What becomes of the dependents of an object that is collected: they go before it if an owner waits for it."""
        if waits and any(self._graph.dependents(item.uid)):
            return "Foreground"
        if ORPHAN in item.finalizers:
            return "Orphan"
        return "Foreground" if FOREGROUND in item.finalizers else "Background"

    async def _state(self, item: Item, owner: Owner) -> OwnerState:
        found = self._graph.find(owner.uid)
        if found is not None:
            return "waiting" if found[1].deleting and FOREGROUND in found[1].finalizers else "present"
        resource = self._graph.by_kind(owner.api_version, owner.kind)
        if resource is None or (resource.namespaced and not item.namespace):
            # A kind that is not served may be served again: its dependents are not deleted.
            return "present"
        namespace = item.namespace if resource.namespaced else None
        try:
            live = await self._client.get(resource, owner.name, namespace=namespace)
        except ApiError as error:
            if error.not_found:
                return "absent"
            raise
        return "present" if live["metadata"]["uid"] == owner.uid else "absent"

    async def _release(self, resource: Resource, item: Item) -> None:
        """Removes the collector's own finalizers from an object under deletion when their time has come."""
        if ORPHAN in item.finalizers:
            for kind, dependent in list(self._graph.dependents(item.uid)):
                await self._drop_owners(kind, dependent, {item.uid})
            await self._drop_finalizer(resource, item, ORPHAN)
        elif FOREGROUND in item.finalizers:
            dependents = list(self._graph.dependents(item.uid))
            for kind, dependent in dependents:
                self._controller.enqueue((kind, (dependent.namespace, dependent.name)))
            blocking = any(o.uid == item.uid and o.blocks for _, d in dependents for o in d.owners)
            if not blocking:
                await self._drop_finalizer(resource, item, FOREGROUND)

    async def _drop_finalizer(self, resource: Resource, item: Item, finalizer: str) -> None:
        kept = [one for one in item.finalizers if one != finalizer]
        await self._patch(resource, item, {"finalizers": kept})

    async def _drop_owners(self, resource: Resource, item: Item, uids: set[str]) -> None:
        live = await self._client.get(resource, item.name, namespace=item.namespace or None)
        metadata = live["metadata"]
        if metadata["uid"] == item.uid:
            kept = [owner for owner in metadata.get("ownerReferences") or [] if owner.get("uid") not in uids]
            await self._patch(resource, item, {"ownerReferences": kept}, version=metadata["resourceVersion"])

    async def _patch(self, resource: Resource, item: Item, metadata: JSON, *, version: str = "") -> None:
        """A change of metadata that fails with a conflict if the object has changed since it was read."""
        body = {"metadata": {**metadata, "uid": item.uid, "resourceVersion": version or item.version}}
        await self._client.patch(resource, item.name, body, patch_type="merge", namespace=item.namespace or None)
