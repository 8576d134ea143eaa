"""Caches of the kinds that are wrapped: one for each, from the first AppWrapper on that has the kind.

They hold what has the label of an AppWrapper, reduced to what the controller reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from app.appwrappers.controller.stored import Component, stored_component
from app.appwrappers.model import APP_WRAPPER
from app.kube.client import KubeClient
from app.kube.own_writes import OwnWrites
from app.kube.reflector import Reflector
from app.kube.resources import Resource
from app.kube.running import stand
from app.kube.store import Key, Store

LAG = 10.0
"""Seconds for which a watch may not have shown yet what was written."""

Changed = Callable[[Resource, Component | None, Component | None], object]


class Kind:
    """`get` is the object of a name as the watch and our own writes say."""

    def __init__(self, client: KubeClient, resource: Resource, changed: Changed) -> None:
        self.resource = resource
        self.store: Store[Component] = Store(stored_component)
        self.reflector = Reflector(client, resource, self.store, label_selector=APP_WRAPPER)
        self.written: OwnWrites[Component] = OwnWrites(
            lambda key: self.store.get(*key),
            lifetime=LAG,
            reached=lambda shown, written: shown.version >= written.version,
            uid=lambda component: component.uid,
        )
        self.written.follow(self.store)
        self.store.subscribe(lambda _event, _key, old, new: changed(resource, old, new))

    @property
    def known(self) -> bool:
        """Whether the cache says what there is; where rights are missing it never will."""
        return self.reflector.healthy and not self.store.in_doubt

    @property
    def coming(self) -> bool:
        """Whether the first list has neither come nor been refused."""
        return not self.store.synced and self.reflector.reason == "not listed yet"

    def get(self, key: Key) -> Component | None:
        return self.written.get(key)


class Kinds:
    """`changed` is called with an object before and after a change, `synced` when a cache has filled."""

    def __init__(self, client: KubeClient, *, changed: Changed, synced: Callable[[], None]) -> None:
        self._client, self._changed, self._synced = client, changed, synced
        self._kinds: dict[Resource, Kind] = {}
        self._group: asyncio.TaskGroup | None = None

    def of(self, resource: Resource) -> Kind:
        """The cache of a kind, which begins to fill if it is new."""
        found = self._kinds.get(resource)
        if found is None:
            found = self._kinds[resource] = Kind(self._client, resource, self._changed)
            found.store.on_renewed(self._synced)
            if self._group is not None:
                self._start(found)
        return found

    def all(self) -> tuple[Kind, ...]:
        return tuple(self._kinds.values())

    async def run(self) -> None:
        """Runs the caches until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for kind in tuple(self._kinds.values()):
                self._start(kind)
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None  # a worker that drains may ask for a new kind

    def expire(self) -> list[Component]:
        """What was written, and is not shown in time."""
        return [component for kind in self._kinds.values() for component in kind.written.expire()]

    def _start(self, kind: Kind) -> None:
        if self._group is not None:
            stand(self._group, "wrapped-kinds", kind.reflector.run)
            stand(self._group, "wrapped-kinds", lambda: self._tell(kind))

    async def _tell(self, kind: Kind) -> None:
        await kind.store.wait_synced()
        self._synced()
