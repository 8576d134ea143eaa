"""An in-memory cache of one kind of object: projected at insert, indexed, observable.

It does no I/O and takes no locks: it belongs to one event loop. Readers share the values and must not change them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from sys import intern
from typing import Generic, Literal, TypeVar

import structlog

from app.errors import BerthError
from app.wire import JSON

log = structlog.get_logger(__name__)

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
Listener = Callable[[EventType, Key, T | None, T | None], object]
"""Called with (type, key, old, new) after the store has changed; must not block."""


class PoisonError(BerthError):
    """An object that cannot be kept: it has no name, or its projection or an index raised."""


def key_of(obj: JSON) -> Key:
    """The (namespace, name) of a Kubernetes object; raises `PoisonError` where there is none."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict):
        raise PoisonError("object without metadata")
    namespace, name = metadata.get("namespace") or "", metadata.get("name")
    if not isinstance(name, str) or not name or not isinstance(namespace, str):
        raise PoisonError("object without metadata.name")
    # Few namespaces, many objects: one string for each namespace is kept.
    return intern(namespace), name


@dataclass(frozen=True, slots=True)
class Identity:
    """Which object it is. A projection that inherits this is made of `*identity_of(obj)` and its own fields."""

    key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class Head(Identity):
    """The same, and whether the object is being deleted; made of `*head_of(obj)`."""

    deleting: bool


def identity_of(obj: JSON) -> tuple[Key, str]:
    """The fields of `Identity`. Raises KeyError for an object without a UID: no API server returns one."""
    return key_of(obj), obj["metadata"]["uid"]


def head_of(obj: JSON) -> tuple[Key, str, bool]:
    """The fields of `Head`, as `identity_of`."""
    metadata = obj["metadata"]
    return key_of(obj), metadata["uid"], "deletionTimestamp" in metadata


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    """`mark` stands for the object's uid in few bytes; 0 where it has none."""

    value: T
    index_keys: tuple[tuple[str, Hashable], ...]
    mark: int


def _mark_of(obj: JSON) -> int:
    uid = obj["metadata"].get("uid")
    # The smallest kind of integer in memory; that two objects of one name have the same is one in a billion.
    return hash(uid) % 2**30 or 1 if isinstance(uid, str) and uid else 0


def _same(one: object, other: object) -> bool:
    """What is nested too deeply to be compared counts as changed."""
    try:
        return bool(one == other)
    except RecursionError:
        return False


class Store(Generic[T]):
    """Objects by (namespace, name), each reduced by `project` when it comes in.

    `project` returns what is worth keeping, or None for an object that is not to be kept. `indices` maps a name to a
    function from a kept value to the keys under which `by_index` finds it. An object whose projection raises is
    refused with `PoisonError`, and the last good version under its key stays until the object is deleted.
    """

    def __init__(
        self,
        project: Callable[[JSON], T | None],
        *,
        indices: Mapping[str, Callable[[T], Iterable[Hashable]]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._project = project
        self._indices = dict(indices or {})
        self._clock = clock
        self._entries: dict[Key, _Entry[T]] = {}
        self._buckets: dict[tuple[str, Hashable], dict[Key, None]] = {}
        self._listeners: list[Listener[T]] = []
        self._renewal_listeners: list[Callable[[], None]] = []
        self._synced = asyncio.Event()
        self.in_doubt = False
        """True from `suspect` until the whole content has been loaded again: it may show what never was."""
        self._last_contact: float | None = None
        self.failures = 0
        """How often a listener has raised."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, namespace: str, name: str) -> T | None:
        entry = self._entries.get((namespace, name))
        return None if entry is None else entry.value

    def keys(self) -> list[Key]:
        return list(self._entries)

    def values(self) -> list[T]:
        return [entry.value for entry in self._entries.values()]

    def by_index(self, index: str, key: Hashable) -> list[T]:
        """The values under `key` of a declared index, in the order of their names; KeyError for an unknown index."""
        return [self._entries[name].value for name in sorted(self._bucket(index, key))]

    def among(self, index: str, key: Hashable) -> Iterator[T]:
        """The same one after the other, in the order in which they came under `key`, for those who need not see all."""
        return (self._entries[name].value for name in self._bucket(index, key))

    def count(self, index: str, key: Hashable) -> int:
        """How many values there are under `key` of a declared index; KeyError for an unknown index."""
        return len(self._bucket(index, key))

    def _bucket(self, index: str, key: Hashable) -> dict[Key, None]:
        if index not in self._indices:
            raise KeyError(index)
        return self._buckets.get((index, key), {})

    @property
    def synced(self) -> bool:
        """True once the whole content has been loaded for the first time; never turns back."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def mark_synced(self) -> None:
        """The whole content has just been loaded: a doubt, if there was one, is over."""
        self._synced.set()
        if self.in_doubt:
            self.in_doubt = False
            self._call(self._renewal_listeners)

    def suspect(self) -> None:
        """The source may have been replaced by another one, or by an earlier state of itself."""
        self.in_doubt = True

    def contradicts(self, obj: JSON) -> bool:
        """Whether the object has the name, but not the uid, of one that is held; raises `PoisonError`."""
        entry = self._entries.get(key_of(obj))
        return entry is not None and entry.mark != 0 and _mark_of(obj) not in (0, entry.mark)

    def touch(self) -> None:
        """Note that the source has just been heard of."""
        self._last_contact = self._clock()

    @property
    def age(self) -> float | None:
        """Seconds since the source was last heard of; None before the first time."""
        return None if self._last_contact is None else max(0.0, self._clock() - self._last_contact)

    def subscribe(self, listener: Listener[T]) -> Callable[[], None]:
        """Calls `listener` on every later change that the projection shows; the result ends the subscription."""
        return _added(self._listeners, listener)

    def on_renewed(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` at the end of each doubt, after the changes that it brought; as `subscribe`."""
        return _added(self._renewal_listeners, listener)

    def upsert(self, obj: JSON) -> None:
        """Keep the object (or drop it, if its projection is None); raises `PoisonError`."""
        key = key_of(obj)
        self._swap(key, self._prepare(key, obj))

    def remove(self, namespace: str, name: str) -> None:
        """Forget the object, if it is there."""
        self._swap((namespace, name), None)

    def replace_all(self, objects: Iterable[JSON]) -> list[tuple[EventType, Key]]:
        """Make `objects` the whole content; raises `PoisonError` and changes nothing if one of them is bad."""
        replacement = self.replacement()
        for obj in objects:
            replacement.add(obj)
        return replacement.commit()

    def replacement(self) -> Replacement[T]:
        """Starts a replacement that is filled page by page, so that raw objects need not pile up."""
        return Replacement(self)

    def _prepare(self, key: Key, obj: JSON) -> _Entry[T] | None:
        try:
            value = self._project(obj)
            if value is None:
                return None
            pairs = [(name, k) for name, function in self._indices.items() for k in function(value)]
            return _Entry(value, tuple(dict.fromkeys(pairs)), _mark_of(obj))
        except Exception as error:  # the wall: whatever one object does to a projection, the others go on
            raise PoisonError(f"{key[0]}/{key[1]}: {type(error).__name__}") from error

    def _swap(self, key: Key, entry: _Entry[T] | None) -> EventType | None:
        old = self._entries.pop(key, None) if entry is None else self._entries.get(key)
        if old is None and entry is None:
            return None
        if old is not None and entry is not None and _same(old.value, entry.value):
            if old.mark != entry.mark:
                self._entries[key] = replace(old, mark=entry.mark)
            return None
        for pair in old.index_keys if old else ():
            bucket = self._buckets[pair]
            del bucket[key]
            if not bucket:
                del self._buckets[pair]
        if entry is not None:
            self._entries[key] = entry
            for pair in entry.index_keys:
                self._buckets.setdefault(pair, {})[key] = None
        event: EventType = "ADDED" if old is None else "DELETED" if entry is None else "MODIFIED"
        self._call(self._listeners, event, key, old.value if old else None, entry.value if entry else None)
        return event

    def _call(self, listeners: Iterable[Callable[..., object]], *arguments: object) -> None:
        for listener in tuple(listeners):
            try:
                listener(*arguments)
            except Exception:  # the wall: a listener must not end the watch that feeds the others
                event = arguments[0] if arguments else "RENEWED"
                self.failures += 1
                log.exception("store listener failed", event_type=event, key=arguments[1:2])


def _added(listeners: list[F], listener: F) -> Callable[[], None]:
    listeners.append(listener)
    return lambda: listeners.remove(listener) if listener in listeners else None


class Replacement(Generic[T]):
    """A new content under construction; the store shows the old one until `commit`."""

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self._held = store._entries  # noqa: SLF001 - one module, one concern
        self._entries: dict[Key, _Entry[T]] = {}

    def add(self, obj: JSON) -> None:
        """Project and add one object; raises `PoisonError`, and then the last good version of that object stays."""
        key = key_of(obj)
        try:
            entry = self._store._prepare(key, obj)  # noqa: SLF001
        except PoisonError:
            if key in self._held and not self._store.contradicts(obj):
                self._entries[key] = self._held[key]
            raise
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry

    def differs(self) -> bool:
        return self._held.keys() != self._entries.keys() or any(
            not _same(self._held[key].value, entry.value) for key, entry in self._entries.items()
        )

    def commit(self) -> list[tuple[EventType, Key]]:
        """Make this the content, and return the changes in the order in which the listeners got them."""
        return [(event, key) for event, key in self.steps() if event is not None]

    def steps(self) -> Iterator[tuple[EventType | None, Key]]:
        """The same, one object a step, since listeners may take milliseconds: deletions first, then by name.

        In between the store shows some of each content, as it would after as many events.
        """
        for key in (*sorted(self._held.keys() - self._entries.keys()), *sorted(self._entries)):
            yield self._store._swap(key, self._entries.get(key)), key  # noqa: SLF001
