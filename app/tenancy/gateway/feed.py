"""A watch over a store for one subscriber: everything there is, then "synced", then every change.

It keeps the names of what changed, never what it changed to: a slow reader gets the latest states, and what is kept
for it is bounded by the number of names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import Any

from app.kube.store import Store
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.views import BY_NAMESPACE, View

Change = dict[str, Any]
"""The `event` of an answer: an item under the name of its field, `deleted` with a name, or `synced`."""


async def follow(*stores: Store[View], namespace: str, item: Callable[[bytes], Change]) -> AsyncGenerator[Change, None]:
    """The changes of one namespace over all the stores, in which a name stands once; runs until closed.

    `item` makes the change of a view's message. Raises `Refused` after a doubt: writes that its reader knows of may be
    lost, and no change says so.
    """
    subscriber = _Subscriber(stores, namespace, item)
    try:
        # What changes meanwhile waits, so that a busy namespace is "synced" as well.
        for change in subscriber.take(sorted(subscriber.dirty)):
            yield change
        yield {"synced": True}
        while not subscriber.renewed:
            while subscriber.dirty:
                for change in subscriber.take(list(subscriber.dirty)):
                    yield change
            subscriber.changed.clear()
            if not subscriber.renewed:
                await subscriber.changed.wait()
        raise Refused(Code.UNAVAILABLE, "the infra cluster was read anew: begin with everything")
    finally:
        subscriber.close()


class _Subscriber:
    def __init__(self, stores: tuple[Store[View], ...], namespace: str, item: Callable[[bytes], Change]) -> None:
        self._stores = stores
        self._item = item
        self._namespace = namespace
        self._given: dict[str, View] = {}
        # An ordered set: what changed first is told first.
        self.dirty = {view.name: None for store in stores for view in store.by_index(BY_NAMESPACE, namespace)}
        self.changed = asyncio.Event()
        self.renewed = False
        self._ends = [store.subscribe(self._note) for store in stores]
        self._ends += [store.on_renewed(self._renew) for store in stores]

    def close(self) -> None:
        for end in self._ends:
            end()

    def take(self, names: Iterable[str]) -> Iterator[Change]:
        """What has become of these names since they were given."""
        for name in names:
            self.dirty.pop(name, None)
            found = (store.get(self._namespace, name) for store in self._stores)
            view = next((view for view in found if view is not None), None)
            if view is None:
                if self._given.pop(name, None) is not None:
                    yield {"deleted": name}
            elif self._given.get(name) != view:
                self._given[name] = view
                yield self._item(view.message)

    def _renew(self) -> None:
        self.renewed = True
        self.changed.set()

    def _note(self, _type: str, key: tuple[str, str], _old: View | None, _new: View | None) -> None:
        if key[0] == self._namespace:
            self.dirty[key[1]] = None
            self.changed.set()
