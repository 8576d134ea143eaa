"""What the services of rules and of objects share: they read requests, find, list, delete and watch objects.

They ask the API server, not a cache, so that a caller finds what it has just written. A watch of one namespace sends
everything there is in some caches, then every change.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message

from app.kube.resources import Resource
from app.kube.retry import every_item, get_or_none, until_no_conflict
from app.kube.store import Store
from app.kube.turns import Turns
from app.tenancy.gateway.admitting import label_of_call, tenant_of_call
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.caches import BY_NAMESPACE, View
from app.tenancy.gateway.failures import Code, Refused, deleting
from app.tenancy.gateway.reading import field_of
from app.wire import JSON

T = TypeVar("T")
_ATTEMPTS = 5
"""How often a write that met another one is tried."""
_PAGE = 25
"""Objects that are read at a time: each may have a megabyte and more."""
_LISTS = 4
"""Lists of all tenants together; one of each."""
_SLICE = 5
"""Objects of a list that are encoded in one turn of the event loop."""
_SLICE_BYTES = 64 * 1024
"""Of objects, after which a slice ends."""


class Service:
    """Objects in the namespace that a call is about, the calling tenant's. Requests to the API server take turns."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._client, self._storing = backend.client, backend.storing
        self._lists = Turns(total=_LISTS, each=1)

    @property
    def _namespace(self) -> str:
        return tenant_of_call().namespace

    def _turn(self) -> AbstractAsyncContextManager[None]:
        return self._backend.turns.of(self._namespace)

    async def _in_turn(self, request: Callable[[], Awaitable[T]]) -> T:
        async with self._turn():
            return await request()

    async def _read(self, work: Callable[[], T], *, size: int) -> T:
        """What `work` makes of a request of so many bytes; it must not touch what belongs to the event loop."""
        return await self._backend.readers.read(work, size=size, tenant=label_of_call())

    async def _find(self, resource: Resource, name: str) -> JSON | None:
        return await get_or_none(self._client, resource, name, namespace=self._namespace)

    def _objects(self, resource: Resource, selector: str = "") -> AsyncIterator[JSON]:
        """All objects of the namespace, as many as there are."""
        page = partial(
            self._client.list_page, resource, namespace=self._namespace, label_selector=selector, limit=_PAGE
        )
        return every_item(lambda token: self._in_turn(lambda: page(continue_token=token)))

    async def _listed(
        self,
        resource: Resource,
        make: Callable[[JSON], Message],
        entry: Callable[[bytes], bytes],
        *,
        hint: str,
        selector: str = "",
    ) -> bytes:
        """The encoded list of what `make` makes of each object. `entry` makes its entry of one.

        RESOURCE_EXHAUSTED with the `hint` for more than a message may have. Other work goes on between the slices.
        """
        made, limit, slices = bytearray(), self._backend.limits.message_bytes, Slices(_SLICE)
        async with self._lists.of(self._namespace):
            async for item in self._objects(resource, selector):
                encoded = make(item).SerializeToString()
                made += entry(encoded)
                if len(made) > limit:
                    text = f"the list has more than {limit} bytes, the most that a message may have; {hint}"
                    raise Refused(Code.RESOURCE_EXHAUSTED, text)
                await slices.worked(len(encoded))
        return bytes(made)

    async def _until_written(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What `attempt` returns: it looks at what there is and writes, again where another client came between."""
        return await until_no_conflict(
            attempt, sleep=asyncio.sleep, attempts=_ATTEMPTS, lost=lambda error: error.status in (404, 409)
        )

    async def _delete(self, resource: Resource, obj: JSON) -> None:
        """Delete this object, where it is still there."""
        name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
        with deleting():
            await self._client.delete(resource, name, namespace=self._namespace, uid=uid)


class Slices:
    """Long work in slices: no tenant's list or sweep holds the event loop while calls of others wait.

    A slice ends after so many objects, or after 64 KiB of them, whichever is reached first.
    """

    def __init__(self, objects: int) -> None:
        self._most = objects
        self._objects = self._bytes = 0

    async def worked(self, size: int = 0) -> None:
        """One more object of so many bytes is done. Other work has its turn where that ends a slice."""
        self._objects += 1
        self._bytes += size
        if self._objects >= self._most or self._bytes >= _SLICE_BYTES:
            self._objects = self._bytes = 0
            await asyncio.sleep(0)


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
            views = (store.get(self._namespace, name) for store in self._stores)
            view = next((view for view in views if view is not None), None)
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
