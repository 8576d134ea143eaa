"""What a controller is made of: what it caches, which keys a change wakes, and what follows for a key.

    kit = Kit(client)
    pods = kit.cache(PODS, stored_pod, indices={"node": lambda pod: (pod.node,)})
    kit.reconcile("pods", look_at, keys=pods.keys, wakes={pods: itself})
    await kit.run()

The start, readiness, writes of its own, expiry and the end are the kit's. What is declared while it runs begins then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from app.kube.client import KubeClient
from app.kube.controller import BACKOFF, Controller, Result, by_namespace
from app.kube.events import EventRecorder
from app.kube.metrics import create_controller_series, create_watch_series
from app.kube.own_writes import OwnWrites, Versioned, by_version
from app.kube.reflector import Reflector, Scope
from app.kube.resources import Resource
from app.kube.running import problems_of, stand, start
from app.kube.store import Key, Store

if TYPE_CHECKING:
    from app.kube.transport import Session

_LAG = 10.0
"""Seconds for which a write of ours counts that the watch has not shown."""
_LOOK = 1.0
"""Seconds between two looks for what has expired, such as writes that the watch has not shown in time."""

T = TypeVar("T")
_Indices = Mapping[str, Callable[[T], Iterable[Hashable]]]
Wakes = Callable[[Key, Any, Any], Iterable[Hashable]]
"""Which keys a change wakes, from the key of the object and what the cache kept of it before and after (or None)."""


class Watched(NamedTuple):
    """A cache as its kit declares it. `called` is the kind in the metrics."""

    scope: Scope
    called: str


class Watches:
    """The lists and watches of one term of a process: one for each scope, however many caches keep what it brings.

    A cache is one for all kits that keep the same of its objects.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._reflectors: dict[Scope, Reflector] = {}
        self._caches: dict[Hashable, tuple[Store[Any], Reflector]] = {}
        self.declared: list[Watched] = []

    def cache(
        self, scope: Scope, project: Callable[[Any], T | None], *, indices: _Indices[T] | None, called: str
    ) -> tuple[Store[T], Reflector]:
        """A cache, and what keeps it: one that is asked for already, unless its watch has begun.

        Indices of one name are the same.
        """
        key = (scope, project, tuple(indices or ()), called)
        cache = self._caches.get(key)
        if cache is None or cache[1].started:
            store = Store(project, indices=indices)
            cache = self._caches[key] = store, self.follow(scope, store, called=called)
        return cache

    def follow(self, scope: Scope, store: Store[Any], *, called: str = "") -> Reflector:
        """What keeps the store. It is to be started by each who asked for it, and runs once."""
        watched = Watched(scope, called or scope.resource.kind)
        self.declared.append(watched)
        create_watch_series(watched.called)
        shared = self._reflectors.get(scope)
        if shared is not None and not shared.started:
            shared.serve(store, called=called)
            return shared
        reflector = self._reflectors[scope] = Reflector(self._client, scope, store, called=called)
        return reflector


class Written(Versioned, Protocol):
    """What a cache has to keep of an object for its kit to know our own writes of it."""

    @property
    def key(self) -> Key: ...


W = TypeVar("W", bound=Written)
K = TypeVar("K", bound=Hashable)


def itself(key: Key, _old: object, _new: object) -> Iterable[Key]:
    """The object that has changed."""
    return (key,)


def all_of(keys: Callable[[], Iterable[Hashable]]) -> Wakes:
    """Every key there is."""
    return lambda _key, _old, _new: keys()


def declare(build: Callable[[KubeClient], object]) -> None:
    """Have the series of all that is built exist at zero from the first scrape: also of a replica that stands by.

    `build` gets a client that is connected to nothing, and what it makes is dropped: it makes no request, needs no
    event loop, and keeps nothing outside of its result.
    """
    build(KubeClient(cast("Session", None)))


class Kit:
    """The caches and reconcilers of one controller, for one term. `resync` is in seconds; None is never.

    `watches` are those of the term, which other kits may share.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        events: EventRecorder | None = None,
        watches: Watches | None = None,
        workers: int = 16,
        resync: float | None = 600.0,
    ) -> None:
        self.client, self.events = client, events
        self.watches = watches or Watches(client)
        self._workers, self.resync = workers, resync
        self._ends: list[Callable[[], object]] = []
        self._managers: list[AbstractAsyncContextManager[object] | AbstractContextManager[object]] = []
        self._begins: list[Callable[[asyncio.TaskGroup], object]] = []
        """What the tasks are that begin with the group."""
        self._group: asyncio.TaskGroup | None = None
        self._problems: list[Callable[[], Iterable[str]]] = []
        self.reflectors: list[Reflector] = []
        """What keeps the caches that are declared by now."""
        self._stores: list[Store[Any]] = []
        self._own: dict[Store[Any], OwnWrites[Any]] = {}
        self._wakes: dict[Store[Any], list[tuple[Controller[Any], Wakes]]] = {}
        self.controllers: list[Controller[Any]] = []
        """Those that are declared by now."""

    def cache(
        self,
        resource: Resource,
        project: Callable[[Any], T | None],
        *,
        indices: _Indices[T] | None = None,
        namespace: str | None = None,
        name: str = "",
        labels: str = "",
        fields: str = "",
        called: str = "",
    ) -> Store[T]:
        """A cache of what `project` keeps of the objects; the rest is as of a `Store`, a `Scope` and a `Reflector`."""
        scope = Scope(resource, namespace, name, labels, fields)
        store, reflector = self.watches.cache(scope, project, indices=indices, called=called)
        self.reflectors.append(reflector)
        self._stores.append(store)
        self._begin(lambda group: start(group, (reflector,)))
        return store

    def own(
        self, store: Store[W], *, lifetime: float = _LAG, group: Callable[[W], Hashable] = lambda _: None
    ) -> OwnWrites[W]:
        """Our own writes of the objects of a cache, which wake nothing.

        One that the watch does not show within `lifetime` seconds wakes what a change of the object wakes.
        """
        own = by_version(lambda key: store.get(*key), lifetime=lifetime, group=group)
        store.on_renewed(own.clear)
        self._listen(store)
        if not self._own:
            self.each_second("own-writes", self._expire)
        self._own[store] = own
        return own

    def reconcile(
        self,
        name: str,
        step: Callable[[K], Awaitable[Result]],
        *,
        keys: Callable[[], Iterable[K]],
        wakes: Mapping[Store[Any], Wakes],
        turn: Callable[[Any], str] | None = by_namespace,
        stores: Sequence[Store[Any]] | None = None,
        workers: int | None = None,
        backoff: tuple[float, float] = BACKOFF,
    ) -> Controller[K]:
        """Run `step` for the keys that changes wake, and for all `keys` at the start; see `Controller`.

        It waits for `stores`, and begins nothing while one of them is in doubt; None is the caches that the kit has by
        now. Where `workers` is None, they are as many as those of the kit.
        """
        controller = Controller(
            name,
            step,
            stores=self._stores if stores is None else stores,
            keys=keys,
            workers=self._workers if workers is None else workers,
            resync=self.resync,
            turn=turn,
            backoff=backoff,
        )
        create_controller_series(name)
        self.wake(controller, wakes)
        self.controllers.append(controller)
        self._begin(lambda group: start(group, (), (controller,)))
        return controller

    def wake(self, controller: Controller[Any], wakes: Mapping[Store[Any], Wakes]) -> None:
        """Have changes of these stores too wake keys of the reconciler; they need not be caches of the kit.

        What has subscribed to a store before has seen a change by then.
        """
        for store, woken in wakes.items():
            self._listen(store)
            self._wakes[store].append((controller, woken))

    def beside(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run this too, behind the wall (see `stand`). A reconcile worker may call it, also while the kit ends."""
        self._begin(lambda group: stand(group, name, work))

    def each_second(self, name: str, look: Callable[[], object]) -> None:
        """Call this every second, behind the wall: for what expires without a change of an object."""

        async def looking() -> None:
            while True:
                await asyncio.sleep(_LOOK)
                look()

        self.beside(name, looking)

    def within(self, manager: AbstractAsyncContextManager[object] | AbstractContextManager[object]) -> None:
        """Enter this before anything runs, and leave it when all has ended."""
        self._managers.append(manager)

    def at_end(self, call: Callable[[], object]) -> None:
        """Have this called when the kit has ended."""
        self._ends.append(call)

    def waits_for(self, problems: Callable[[], Iterable[str]]) -> None:
        """Have readiness wait for more than the caches: for this to be empty; one line each."""
        self._problems.append(problems)

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return [*problems_of(self.reflectors), *(line for problems in self._problems for line in problems())]

    def unsynced(self) -> list[str]:
        """The caches that have not been filled for the first time, one line each."""
        reflectors = (reflector for reflector in self.reflectors if not all(store.synced for store in reflector.stores))
        return problems_of(reflectors)

    async def run(self) -> None:
        """Until cancelled; what is under way then gets a few seconds to end."""
        try:
            async with AsyncExitStack() as stack:
                for manager in self._managers:
                    if isinstance(manager, AbstractAsyncContextManager):
                        await stack.enter_async_context(manager)
                    else:
                        stack.enter_context(manager)
                await self._run()
        finally:
            for call in self._ends:
                call()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            for begin in self._begins:
                begin(group)
            try:
                # Another kit may run all that keeps the caches of this one.
                await asyncio.Event().wait()
            finally:
                self._group = None  # a worker that drains may declare more

    def _begin(self, begin: Callable[[asyncio.TaskGroup], object]) -> None:
        if self._group is None:
            self._begins.append(begin)
        else:
            begin(self._group)

    def _listen(self, store: Store[Any]) -> None:
        if store not in self._wakes:
            self._wakes[store] = []
            store.subscribe(lambda _event, key, old, new: self._changed(store, key, old, new))

    def _changed(self, store: Store[Any], key: Key, old: Any, new: Any) -> None:
        own = self._own.get(store)
        if own is None or not own.shown(key, old, new):
            self._wake(store, key, old, new)

    def _wake(self, store: Store[Any], key: Key, old: Any, new: Any) -> None:
        for controller, wakes in self._wakes[store]:
            for woken in wakes(key, old, new):
                controller.enqueue(woken)

    def _expire(self) -> None:
        for store, own in self._own.items():
            for written in own.expire():
                self._wake(store, written.key, written, store.get(*written.key))
