"""A watch of one namespace: everything there is in some caches, then every change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator

from google.protobuf.message import Message

from app.kube.store import Store
from app.tenancy.gateway.encoding import field_of
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.views import BY_NAMESPACE, View


async def follow(*stores: Store[View], namespace: str, answer: type[Message], item: str) -> AsyncGenerator[bytes, None]:
    """Everything there is in all the stores, in which a name stands once, then "synced", then every change.

    An `answer`, which is given encoded, has an item, the name of a `deleted` one, or `synced`. `item` is the name of
    the field of items, whose encoding a view has. Raises `Refused` after a doubt: writes that the reader knows of may
    be lost, and no change shows that.
    """
    feed = _Feed(stores, namespace, answer, item)
    try:
        # What changes meanwhile waits, so that a busy namespace is "synced" as well.
        for change in feed.take(sorted(feed.dirty)):
            yield change
        yield answer(synced=True).SerializeToString()
        while not feed.renewed:
            while feed.dirty:
                for change in feed.take(list(feed.dirty)):
                    yield change
            feed.changed.clear()
            if not feed.renewed:
                await feed.changed.wait()
        raise Refused(Code.UNAVAILABLE, "the infra cluster was read again: start with everything")
    finally:
        for end in feed.ends:
            end()


class _Feed:
    """What changed in one namespace since it was given.

    It keeps the names of what changed, never what it changed to: a slow reader gets the latest states, and what is kept
    for it is bounded by the number of names.
    """

    def __init__(self, stores: tuple[Store[View], ...], namespace: str, answer: type[Message], item: str) -> None:
        self._stores, self._namespace = stores, namespace
        self._answer, self._item = answer, field_of(answer, item)
        self._given: dict[str, View] = {}
        # An ordered set: what changed first is sent first.
        self.dirty = {view.name: None for store in stores for view in store.by_index(BY_NAMESPACE, namespace)}
        self.changed = asyncio.Event()
        self.renewed = False
        self.ends = [store.subscribe(self._note) for store in stores]
        self.ends += [store.on_renewed(self._renew) for store in stores]

    def take(self, changed: Iterable[str]) -> Iterator[bytes]:
        """What has become of these names since they were given."""
        for name in changed:
            self.dirty.pop(name, None)
            found = (store.get(self._namespace, name) for store in self._stores)
            view = next((view for view in found if view is not None), None)
            if view is None:
                if self._given.pop(name, None) is not None:
                    yield self._answer(deleted=name).SerializeToString()
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
