"""Which object owns which: owner references of all objects of a cluster, followed for the garbage collector."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.devtools.sandbox.standins.catalog import deletable_resources
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.reflector import Reflector, Scope
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from app.kube.store import EventType, Key, Listener, Store
from app.wire import JSON

_REDISCOVER = 30.0
_SETTLE = 0.3
# Leases and events come by the thousand and own nothing.
_IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})


@dataclass(frozen=True, slots=True)
class Owner:
    """One owner reference."""

    uid: str
    api_version: str
    kind: str
    name: str
    blocks: bool


@dataclass(frozen=True, slots=True)
class Item:
    """What garbage collection needs to know of an object: the projection under which it is cached."""

    namespace: str
    name: str
    uid: str
    version: str
    owners: tuple[Owner, ...]
    finalizers: tuple[str, ...]
    deleting: bool


def _read(obj: JSON) -> Item:
    metadata = obj["metadata"]
    owners = tuple(
        Owner(
            uid=str(owner.get("uid")),
            api_version=str(owner.get("apiVersion")),
            kind=str(owner.get("kind")),
            name=str(owner.get("name")),
            blocks=bool(owner.get("blockOwnerDeletion")),
        )
        for owner in metadata.get("ownerReferences") or []
    )
    return Item(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata.get("resourceVersion") or "",
        owners=owners,
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting=bool(metadata.get("deletionTimestamp")),
    )


Changed = Callable[[Resource, Key, Item | None, Item | None], None]
"""Called with the object before and after a change; None is no object."""


class Graph:
    """Metadata of all objects of the cluster. `run` it once, until cancelled; `changed` is called for every change.

    New resources are found when a CRD comes, or within half a minute.
    """

    def __init__(self, client: KubeClient, changed: Changed) -> None:
        self._client = client
        self._changed = changed
        self._stores: dict[Resource, Store[Item]] = {}
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        self._rediscover = asyncio.Event()

    async def run(self) -> None:
        try:
            while True:
                await self._discover()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _discover(self) -> None:
        try:
            found = set(await deletable_resources(self._client))
        except ApiError:
            await asyncio.sleep(1)
            return
        self._follow({one for one in found if (one.group, one.plural) not in _IGNORED})
        try:
            async with asyncio.timeout(_REDISCOVER):
                await self._rediscover.wait()
            # A new definition is served a moment after it is seen.
            await asyncio.sleep(_SETTLE)
        except TimeoutError:
            pass
        self._rediscover.clear()

    def _follow(self, resources: set[Resource]) -> None:
        for gone in self._tasks.keys() - resources:
            self._tasks.pop(gone).cancel()
            del self._stores[gone]
        for new in resources - self._tasks.keys():
            store = self._stores[new] = Store(
                _read,
                indices={"uid": lambda item: [item.uid], "owner": lambda item: {owner.uid for owner in item.owners}},
            )
            store.subscribe(self._listener(new))
            self._tasks[new] = asyncio.create_task(Reflector(self._client, Scope(new), store).run())

    def _listener(self, resource: Resource) -> Listener[Item]:
        def listen(_event: EventType, key: Key, old: Item | None, new: Item | None) -> None:
            if resource == CUSTOM_RESOURCE_DEFINITIONS:
                self._rediscover.set()
            self._changed(resource, key, old, new)

        return listen

    @property
    def synced(self) -> bool:
        return all(store.synced for store in self._stores.values())

    def get(self, resource: Resource, key: Key) -> Item | None:
        store = self._stores.get(resource)
        return store.get(*key) if store is not None else None

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a reference; its version may be another one than the cluster prefers."""
        group = api_version.rpartition("/")[0]
        return next((one for one in self._stores if (one.group, one.kind) == (group, kind)), None)

    def find(self, uid: str) -> tuple[Resource, Item] | None:
        for resource, store in self._stores.items():
            found = store.by_index("uid", uid)
            if found:
                return resource, found[0]
        return None

    def dependents(self, uid: str) -> Iterator[tuple[Resource, Item]]:
        for resource, store in self._stores.items():
            for item in store.by_index("owner", uid):
                yield resource, item
