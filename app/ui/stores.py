"""The objects of one cluster in memory: one list and watch of each kind, however many browsers look.

A watch begins when objects of its kind are first read. What is too much or too busy to be watched, and what may not be
watched, is read from the API server, and each answer is kept for some seconds.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from app.doctor.catalog import plain
from app.errors import ApiError
from app.kube.asking import Requests
from app.kube.client import KubeClient, Page
from app.kube.kit import Kit
from app.kube.reflector import Reflector
from app.kube.resources import CONFIG_MAPS, EVENTS, LEASES, SECRETS, Resource
from app.kube.store import Key, Store, key_of
from app.text import stamp, utc_now
from app.ui.footprints import Signal
from app.ui.selection import field_terms, label_selector, labels_of, selected
from app.wire import JSON

T = TypeVar("T")
Changed = Callable[[Resource, Key, JSON | None, JSON | None], object]
"""Called with the kind, the key, and the object before and after the change (None: it is not there)."""

UNWATCHED = frozenset({EVENTS, LEASES, SECRETS})
"""Kinds that are never watched: Events are many, Leases change all the time, and Secrets are secret."""
BY_NAME = frozenset({CONFIG_MAPS})
"""Kinds of which those objects alone are watched that are asked for by name: all of them may be large."""
_NAMES = 64
"""Objects that are watched by name."""
FRESH = 5.0
"""Seconds for which an answer of the API server is used again."""
_ANSWERS = 512
"""Answers that are kept, those that were used last."""
_PATIENCE = 5.0
"""Seconds that the first reader of a kind waits for its watch; then it reads by itself."""
_LOOK = 0.02
_OURS = "after:"
"""Begins the tokens of our pages; those of API servers have no colon."""
_SECRET = ("data", "stringData")
"""Members of a Secret, and of what stands for one, that are dropped where they come in."""


def kept(obj: JSON) -> JSON:
    """What is kept of an object: all of it, but what is secret, the copy that kubectl makes, and who set which field.

    The last is kept of kinds of which there are few: judges read it.
    """
    key_of(obj)
    metadata = dict(obj["metadata"])
    if obj.get("kind") in _MANY:
        metadata.pop("managedFields", None)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and _APPLIED in annotations:
        metadata["annotations"] = {name: text for name, text in annotations.items() if name != _APPLIED}
    public = without_secrets({**obj, "metadata": metadata})
    return _without_heartbeats(public) if obj.get("kind") == "Node" else public


_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The whole object once more."""
_MANY = frozenset({"Node", "Pod", "ReplicaSet"})
_HEARTBEAT = "lastHeartbeatTime"


def alike(old: JSON | None, new: JSON | None) -> bool:
    """Whether nothing has changed that is kept, but for the version: kubelets write the times of heartbeats alone."""
    if old is None or new is None:
        return False
    return all(old.get(name) == new.get(name) for name in old.keys() | new.keys() if name != "metadata") and all(
        old["metadata"].get(name) == new["metadata"].get(name)
        for name in old["metadata"].keys() | new["metadata"].keys()
        if name != "resourceVersion"
    )


def _without_heartbeats(node: JSON) -> JSON:
    status = node.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    if not isinstance(status, dict) or not isinstance(conditions, list):
        return node
    bare = [
        {name: value for name, value in condition.items() if name != _HEARTBEAT}
        if isinstance(condition, dict)
        else condition
        for condition in conditions
    ]
    return {**node, "status": {**status, "conditions": bare}}


def without_secrets(obj: JSON) -> JSON:
    """The same without the data of a Secret, or of a kind that shows one."""
    if not str(obj.get("kind")).endswith("Secret"):
        return obj
    public = {name: value for name, value in obj.items() if name not in _SECRET}
    spec = public.get("spec")
    return public | ({"spec": {}} if isinstance(spec, dict) else {})


class Watched:
    """The objects of one kind in memory."""

    def __init__(self, store: Store[JSON], reflector: Reflector) -> None:
        self.store, self.reflector = store, reflector
        self._keys: list[Key] | None = None
        store.subscribe(self._forget_order)

    @property
    def current(self) -> bool:
        """Whether it is known to show what the API server holds."""
        return self.store.synced and not self.store.in_doubt and self.reflector.healthy

    @property
    def missing(self) -> bool:
        """Whether the API server does not know the kind, and the reflector looks whether that changes."""
        return self.reflector.missing

    async def settled(self) -> None:
        """Wait until the first list is here, or was refused; not for long."""
        end = time.monotonic() + _PATIENCE
        while not self._answered and time.monotonic() < end:  # noqa: ASYNC110 - a reflector has no event for a refusal
            await asyncio.sleep(_LOOK)

    @property
    def _answered(self) -> bool:
        return self.store.synced or self.reflector.reason not in ("", "not listed yet")

    def page(
        self, resource: Resource, *, namespace: str | None, labels: str, fields: str, limit: int, token: str
    ) -> Page:
        """As an API server answers it. The token is the key of the last object of the page before."""
        try:
            wanted, terms = label_selector(labels), field_terms(fields)
        except ValueError as error:
            raise ApiError(f"list of {resource.plural}: {error}", status=400, reason="BadRequest") from error
        after: Key | None = None
        if token:
            home, _, name = token.removeprefix(_OURS).partition("/")
            after = home, name
        items, more, narrowed = list[JSON](), "", bool(labels or fields)
        for key in self._candidates(namespace, wanted, after):
            obj = self.store.get(*key)
            if obj is None or (narrowed and not selected(obj, wanted, terms)):
                continue
            if limit and len(items) == limit:
                last = key_of(items[-1])
                more = f"{_OURS}{last[0]}/{last[1]}"
                break
            items.append(obj)
        return Page(items, self.reflector.version, more, limit=limit)

    def _candidates(self, namespace: str | None, wanted: Any, after: Key | None) -> Iterator[Key]:
        """The keys behind `after`, in their order, of a label or a namespace if one is asked for."""
        equal = next((term for term in wanted.requirements if term.operator == "In" and len(term.values) == 1), None)
        if equal is not None:
            keys = [key_of(obj) for obj in self.store.by_index("label", (equal.key, next(iter(equal.values))))]
        elif namespace is not None:
            keys = [key_of(obj) for obj in self.store.by_index("namespace", namespace)]
        else:
            if self._keys is None:
                self._keys = sorted(self.store.keys())
            keys = self._keys
        start = 0 if after is None else bisect_right(keys, after)
        for index in range(start, len(keys)):
            if namespace is None or keys[index][0] == namespace:
                yield keys[index]

    def _forget_order(self, event: str, *_: object) -> None:
        if event != "MODIFIED":
            self._keys = None


@dataclass(frozen=True, slots=True)
class Silence:
    """An API server that answers none of the watches any more: the time of the first fault, and its reason."""

    since: datetime
    reason: str

    def __str__(self) -> str:
        return f"since {stamp(self.since)} the API server does not answer: {plain(self.reason)}"


class Stores:
    """What is known of one cluster. It works while it is `running`.

    `silence` is None while the API server answers. `turn` is stale when that changes; then there is another one.
    """

    def __init__(self, client: KubeClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.client, self.clock = client, clock
        self._kit = Kit(client)
        self._watched: dict[tuple[Resource, str, str], Watched] = {}
        """By kind; and by namespace and name where one object alone is watched."""
        self._answers: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._requests = Requests[Any]()
        self._listeners: list[Changed] = []
        self.silence: Silence | None = None
        self.turn = Signal()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Stores]:
        task = asyncio.create_task(self._kit.run(), name="ui-stores")
        try:
            await asyncio.sleep(0)
            yield self
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def subscribe(self, listener: Changed) -> None:
        """Have this called after each change of an object that is watched."""
        self._listeners.append(listener)

    @property
    def watches(self) -> tuple[Resource, ...]:
        """The kinds that are watched by now."""
        return tuple(dict.fromkeys(resource for resource, _, _ in self._watched))

    def knows(self, resource: Resource, namespace: str = "", name: str = "") -> bool:
        """Whether changes of this kind are seen, or of this object."""
        watched = self._watched.get(_place(resource, namespace, name))
        return watched is not None and (watched.current or watched.missing)

    async def _in_memory(self, resource: Resource, namespace: str = "", name: str = "") -> Watched | None:
        """The objects of a kind; None if they are not known, and have to be asked for.

        Raises ApiError if the API server does not know the kind.
        """
        place = _place(resource, namespace, name)
        watched = self._watched.get(place)
        if watched is None:
            if resource in UNWATCHED or (resource in BY_NAME and not name):
                return None
            if place[2] and sum(bool(other) for _, _, other in self._watched) >= _NAMES:
                return None
            watched = self._watched[place] = self._begin(*place)
        if not watched.store.synced:
            await watched.settled()
        if watched.missing:
            raise ApiError(f"GET {resource.path()}: HTTP 404: the API server serves no such kind", status=404)
        return watched if watched.current else None

    async def get(self, resource: Resource, name: str, namespace: str | None) -> JSON:
        """The object. Raises ApiError, also if there is none. A Secret is read each time, and never kept."""
        if resource == SECRETS:
            return await self.client.get(resource, name, namespace=namespace)
        watched = await self._in_memory(resource, namespace or "", name)
        if watched is not None:
            obj = watched.store.get((namespace or "") if resource.namespaced else "", name)
            if obj is not None:
                return obj
            path = resource.path(namespace=namespace, name=name)  # raises for what cannot be a name
            raise ApiError(f'GET {path}: HTTP 404: {resource.plural} "{name}" not found', status=404, reason="NotFound")
        return await self._asked(
            ("get", resource, namespace, name), lambda: self.client.get(resource, name, namespace=namespace)
        )

    async def page(
        self, resource: Resource, *, namespace: str | None, labels: str, fields: str, limit: int, token: str
    ) -> Page:
        """A page of objects in the order of their names. Raises ApiError, also for Secrets: no page lists them."""
        if resource == SECRETS:
            raise ApiError("the page lists no Secrets", status=403, reason="Forbidden")
        watched = await self._in_memory(resource)
        namespace = namespace if resource.namespaced else None
        if watched is not None and _is_key(token):
            return watched.page(resource, namespace=namespace, labels=labels, fields=fields, limit=limit, token=token)
        if _is_key(token) and token:  # the watch has been lost between two pages
            raise ApiError(f"list of {resource.plural}: the page is gone", status=410, reason="Expired")
        return await self._asked(
            ("list", resource, namespace, labels, fields, limit, token),
            lambda: self.client.list_page(
                resource,
                namespace=namespace,
                label_selector=labels,
                field_selector=fields,
                limit=limit,
                continue_token=token,
            ),
        )

    def _begin(self, resource: Resource, namespace: str, name: str) -> Watched:
        indices = {"namespace": lambda obj: (key_of(obj)[0],), "label": lambda obj: tuple(labels_of(obj).items())}
        store = self._kit.cache(resource, kept, indices=indices, namespace=namespace or None, name=name)

        def changed(_event: str, key: Key, old: JSON | None, new: JSON | None) -> None:
            # The first list is no change: who reads meanwhile waits for its end.
            if store.synced and not alike(old, new):
                self._changed(resource, key, old, new)

        store.subscribe(changed)
        reflector = self._kit.reflectors[-1]
        reflector.heard = lambda: self._heard(reflector)
        return Watched(store, reflector)

    def _heard(self, reflector: Reflector) -> None:
        """A kind that the server fails to list is no silence while watches of others go on."""
        silent = reflector.unanswered and not any(
            watched.current and watched.reflector.version for watched in self._watched.values()
        )
        if silent == (self.silence is not None) or (reflector.unanswered and not silent):
            return
        self.silence = Silence(utc_now(), reflector.reason) if silent else None
        turn, self.turn = self.turn, Signal()
        turn.spoil()

    def _changed(self, resource: Resource, key: Key, old: JSON | None, new: JSON | None) -> None:
        for listener in self._listeners:
            listener(resource, key, old, new)

    async def _asked(self, question: Hashable, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """An answer of the API server, or its refusal: one for all who ask within some seconds."""
        now = self.clock()
        known = self._answers.get(question)
        if known is None or now - known[0] >= FRESH:
            answer = await self._requests.answer(question, lambda: _outcome(ask()))
            known = self._answers[question] = self.clock(), answer
        self._answers.move_to_end(question)
        if len(self._answers) > _ANSWERS:
            self._answers.popitem(last=False)
        if isinstance(known[1], ApiError):
            raise known[1]
        found: T = known[1]
        return found


async def _outcome(request: Coroutine[Any, Any, T]) -> T | ApiError:
    try:
        return await request
    except ApiError as refusal:
        return refusal


def _place(resource: Resource, namespace: str, name: str) -> tuple[Resource, str, str]:
    return (resource, namespace, name) if resource in BY_NAME else (resource, "", "")


def _is_key(token: str) -> bool:
    """Whether it begins a list, or continues one of ours."""
    return not token or token.startswith(_OURS)
