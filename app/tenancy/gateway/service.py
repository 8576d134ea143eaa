"""What the services of rules and of objects share: they read requests, find, list and delete objects, and follow them.

They ask the API server, not a cache, so that a caller finds what it has just written; only a watch follows a cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from google.protobuf.message import Message

from app.errors import ApiError
from app.kube.client import Page
from app.kube.names import check_dns_subdomain, check_label_value
from app.kube.resources import Resource
from app.kube.retry import every_item, get_or_none
from app.kube.store import Store
from app.kube.turns import Turns
from app.tenancy.gateway.admitting import label_of_call, tenant_of_call
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.failures import Code, Refused, invalid
from app.tenancy.gateway.views import BY_NAMESPACE, View
from app.wire import JSON

M = TypeVar("M", bound=Message)
A = TypeVar("A")
T = TypeVar("T")
API_OWNER = "api"
"""Who keeps what was made without naming an owner."""
_PAGE = 25
"""Objects that are read at a time: each may have a megabyte and more."""
_LISTS = 4
"""Lists of all tenants together; one of each."""


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

    async def _read(self, work: Callable[[], T], *, size: int) -> T:
        """What `work` makes of a request of so many bytes; it must not touch what belongs to the event loop."""
        return await self._backend.readers.read(work, size=size, tenant=label_of_call())

    async def _find(self, resource: Resource, name: str) -> JSON | None:
        return await get_or_none(self._client, resource, name, namespace=self._namespace)

    def _objects(self, resource: Resource, selector: str = "") -> AsyncIterator[JSON]:
        """All objects of the namespace, as many as there are."""

        async def page(token: str) -> Page:
            async with self._turn():
                return await self._client.list_page(
                    resource, namespace=self._namespace, label_selector=selector, limit=_PAGE, continue_token=token
                )

        return every_item(page)

    async def _messages(
        self, resource: Resource, make: Callable[[JSON], M], *, hint: str, selector: str = ""
    ) -> list[M]:
        """What `make` makes of each object. RESOURCE_EXHAUSTED with the `hint` for more than a message may have."""
        made: list[M] = []
        size, limit = 0, self._backend.limits.message_bytes
        async with self._lists.of(self._namespace):
            async for item in self._objects(resource, selector):
                made.append(make(item))
                size += made[-1].ByteSize()
                if size > limit:
                    text = f"the list has more than {limit} bytes, the most that a message may have; {hint}"
                    raise Refused(Code.RESOURCE_EXHAUSTED, text)
        return made

    async def _follow(
        self, *stores: Store[View], answer: Callable[..., A], item: tuple[str, Callable[[bytes], object]]
    ) -> AsyncGenerator[A, None]:
        """Everything there is in all the stores, in which a name stands once, then "synced", then every change.

        An `answer` has an item, the name of a `deleted` one, or `synced`. `item` is the name of the field of items, and
        the function that reads the message of a view. Raises `Refused` after a doubt: writes that the reader knows of
        may be lost, and no change shows that.
        """
        feed = _Feed(stores, self._namespace, item)
        try:
            # What changes meanwhile waits, so that a busy namespace is "synced" as well.
            for change in feed.take(sorted(feed.dirty)):
                yield answer(**change)
            yield answer(synced=True)
            while not feed.renewed:
                while feed.dirty:
                    for change in feed.take(list(feed.dirty)):
                        yield answer(**change)
                feed.changed.clear()
                if not feed.renewed:
                    await feed.changed.wait()
            raise Refused(Code.UNAVAILABLE, "the infra cluster was read anew: begin with everything")
        finally:
            for end in feed.ends:
                end()

    async def _delete(self, resource: Resource, found: JSON) -> None:
        """Delete this object. It may be gone meanwhile, or another one of its name may be there."""
        name, uid = found["metadata"]["name"], found["metadata"]["uid"]
        try:
            await self._client.delete(resource, name, namespace=self._namespace, uid=uid)
        except ApiError as error:
            if error.status not in (404, 409):
                raise


def checked_name(name: str, path: str) -> str:
    """A name that may stand in the path of a request; INVALID_ARGUMENT for any other."""
    try:
        return check_dns_subdomain(name)
    except ValueError as error:
        raise invalid([f"{path}: {error}"]) from error


def owner_problems(owner: str, path: str) -> list[str]:
    """Why this cannot be the owner of something: it becomes the value of a label."""
    try:
        check_label_value(owner)
    except ValueError as error:
        return [f"{path}: {error}"]
    return []


def check_keeper(found: JSON, what: str, *, keeper: str, owner: str) -> None:
    """FAILED_PRECONDITION for an object that another owner keeps, ABORTED for one that is being deleted."""
    if keeper != owner:
        named = repr(keeper) if keeper else "another client"
        raise Refused(Code.FAILED_PRECONDITION, f"{what} is kept by {named}, not by {owner!r}: delete it first")
    if found["metadata"].get("deletionTimestamp"):
        raise Refused(Code.ABORTED, f"{what} is being deleted; try again")


class _Feed:
    """What changed in one namespace since it was given.

    It keeps the names of what changed, never what it changed to: a slow reader gets the latest states, and what is kept
    for it is bounded by the number of names.
    """

    def __init__(
        self, stores: tuple[Store[View], ...], namespace: str, item: tuple[str, Callable[[bytes], object]]
    ) -> None:
        self._stores, self._namespace = stores, namespace
        self._field, self._read = item
        self._given: dict[str, View] = {}
        # An ordered set: what changed first is sent first.
        self.dirty = {view.name: None for store in stores for view in store.by_index(BY_NAMESPACE, namespace)}
        self.changed = asyncio.Event()
        self.renewed = False
        self.ends = [store.subscribe(self._note) for store in stores]
        self.ends += [store.on_renewed(self._renew) for store in stores]

    def take(self, changed: Iterable[str]) -> Iterator[dict[str, Any]]:
        """What has become of these names since they were given."""
        for name in changed:
            self.dirty.pop(name, None)
            found = (store.get(self._namespace, name) for store in self._stores)
            view = next((view for view in found if view is not None), None)
            if view is None:
                if self._given.pop(name, None) is not None:
                    yield {"deleted": name}
            elif self._given.get(name) != view:
                self._given[name] = view
                yield {self._field: self._read(view.message)}

    def _renew(self) -> None:
        self.renewed = True
        self.changed.set()

    def _note(self, _type: str, key: tuple[str, str], _old: View | None, _new: View | None) -> None:
        if key[0] == self._namespace:
            self.dirty[key[1]] = None
            self.changed.set()
