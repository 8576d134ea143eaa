"""Finds one object: in a cache, else with one GET that all who wait for it share.

A miss is not remembered, but for one review (`app.kube.asking`), which asks each of its questions once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

from app.errors import ApiError, Transient
from app.kube.asking import Requests, once
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.store import EventType, Key, Store
from app.pace import at_pace
from app.wire import JSON

GET_TIMEOUT = 5.0
"""Seconds for one GET; below the deadline of a review, so that the answer can still say what was missing."""
T = TypeVar("T")


class Lookup(Generic[T]):
    """Objects of one kind as `project` shows them. Callers have validated the names.

    In messages `called` names an object, and `field` is the member of the reviewed object that asks for it.
    """

    def __init__(
        self,
        resource: Resource,
        cache: Store[T],
        project: Callable[[JSON], T],
        *,
        client: Callable[[], KubeClient | None],
        called: str,
        field: str = "spec",
        timeout: float = GET_TIMEOUT,
    ) -> None:
        self.cached = cache.get
        self._cache, self._names = cache, Counter[str]()
        self._counts_names = False
        self._resource, self._project, self._called, self._field = resource, project, called, field
        self._client, self._timeout = client, timeout
        self._requests: Requests[T | Transient | None] = Requests()

    @property
    def connected(self) -> bool:
        """Whether there is a client."""
        return self._client() is not None

    def has_name(self, name: str) -> bool:
        """Whether the cache has an object of this name in any namespace.

        The first who asks pays for all objects; later on each change is counted.
        """
        if not self._counts_names:
            self._counts_names = True
            self._names.update(name for _, name in self._cache.keys())  # noqa: SIM118  no mapping
            self._cache.subscribe(self._count_name)
        return name in self._names

    def _count_name(self, event: EventType, key: Key, _old: T | None, _new: T | None) -> None:
        name = key[1]
        if event == "ADDED":
            self._names[name] += 1
        elif event == "DELETED":
            self._names[name] -= 1
            if not self._names[name]:
                del self._names[name]

    async def find(self, namespace: str, name: str) -> T | None:
        """The object, or None where there is none, or no client.

        Raises Transient, from what the client raised, where the GET failed, and Denied as `once` does.
        """
        found = self.cached(namespace, name)
        client = self._client() if found is None else None
        if client is None:
            return found
        what = self._named(namespace, name)
        question = (self._resource, self._project, namespace, name)
        return await once(question, lambda: self._shared(client, namespace, name), field=self._field, what=what)

    async def _shared(self, client: KubeClient, namespace: str, name: str) -> T | None:
        outcome = await self._requests.answer((namespace, name), partial(self._get, client, namespace, name))
        if isinstance(outcome, Transient):
            raise Transient(str(outcome), delay=outcome.delay) from outcome.__cause__
        return outcome

    def _named(self, namespace: str, name: str) -> str:
        return f"{self._called} '{namespace}/{name}'" if namespace else f"{self._called} {name}"

    async def _get(self, client: KubeClient, namespace: str, name: str) -> T | Transient | None:
        """The outcome of one GET. Faults are returned: each who waits raises one of its own."""
        where = self._named(namespace, name)
        try:
            async with asyncio.timeout(self._timeout):
                return self._project(await client.get(self._resource, name, namespace=namespace or None))
        except Transient as error:
            if isinstance(error, ApiError) and error.not_found:
                return None
            fault = Transient(f"could not read {where}: {error}", delay=error.delay)
            fault.__cause__ = error
            return fault
        except TimeoutError:
            return Transient(f"could not read {where}: no answer within {self._timeout:g} s")


_Wanted = tuple[Lookup[Any], str, str]
Steps = Generator[_Wanted, Any, T]
"""Yields what it has to know (which lookup, namespace, name), and is sent what was found. Returns what follows."""


def follow(steps: Steps[None]) -> Awaitable[None] | None:
    """Run the steps to their end from caches alone, or until a cache lacks something: then the rest is to be awaited.

    Raises what the steps raise, and Transient where a GET failed.
    """
    found = None
    try:
        while True:
            lookup, namespace, name = steps.send(found)
            found = lookup.cached(namespace, name)
            if found is None:
                return _follow_on(steps, lookup, namespace, name)
    except StopIteration:
        return None


async def _follow_on(steps: Steps[None], lookup: Lookup[Any], namespace: str, name: str) -> None:
    wanted: _Wanted | None = (lookup, namespace, name)
    while wanted is not None:
        lookup, namespace, name = wanted
        wanted = await at_pace(partial(_sent, steps, await lookup.find(namespace, name)))


def _sent(steps: Steps[None], found: object) -> _Wanted | None:
    """What the steps look for next; None at their end."""
    try:
        return steps.send(found)
    except StopIteration:
        return None
