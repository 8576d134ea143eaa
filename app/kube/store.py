"""An in-memory cache of one kind of object: projected at insert, indexed, observable.

A reflector or a manifest source fills it; webhooks and reconcilers read it without waiting. It does no I/O and
takes no locks: it belongs to one event loop. Readers share the values, so these must not be changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Generic, Literal, TypeVar

import structlog

from app.errors import BerthError
from app.wire import JSON

log = structlog.get_logger(__name__)

T = TypeVar("T")
Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
Listener = Callable[[EventType, Key, T | None, T | None], None]
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
class Diff:
    """What a replacement of the whole content changed, as sorted keys."""

    added: list[Key] = field(default_factory=list)
    modified: list[Key] = field(default_factory=list)
    deleted: list[Key] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.deleted)


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
        self._buckets: dict[tuple[str, Hashable], set[Key]] = {}
        self._listeners: list[Listener[T]] = []
        self._synced = asyncio.Event()
        self._in_doubt = False
        self._renewal_listeners: list[Callable[[], None]] = []
        self.last_contact: float | None = None

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
        if index not in self._indices:
            raise KeyError(index)
        return [self._entries[found].value for found in sorted(self._buckets.get((index, key), ()))]

    def count(self, index: str, key: Hashable) -> int:
        """How many values there are under `key` of a declared index; KeyError for an unknown index."""
        if index not in self._indices:
            raise KeyError(index)
        return len(self._buckets.get((index, key), ()))

    @property
    def synced(self) -> bool:
        """True once the whole content has been loaded for the first time; never turns back."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def mark_synced(self) -> None:
        """The whole content has just been loaded: a doubt, if there was one, is over."""
        self._synced.set()
        if self._in_doubt:
            self._in_doubt = False
            self._call(self._renewal_listeners)

    @property
    def in_doubt(self) -> bool:
        """True from `suspect` until the whole content has been loaded again: it may show what never was."""
        return self._in_doubt

    def suspect(self) -> None:
        """The source may have been replaced by another one, or by an earlier state of itself."""
        self._in_doubt = True

    def on_renewed(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` at the end of each doubt, after the changes that it brought; as `subscribe`."""
        self._renewal_listeners.append(listener)
        return lambda: self._renewal_listeners.remove(listener) if listener in self._renewal_listeners else None

    def contradicts(self, obj: JSON) -> bool:
        """Whether the object has the name, but not the uid, of one that is held; raises `PoisonError`."""
        entry = self._entries.get(key_of(obj))
        if entry is None or not entry.mark:
            return False
        return _mark_of(obj) not in (0, entry.mark)

    def touch(self) -> None:
        """Note that the source has just been heard of: `last_contact` (monotonic seconds) is now."""
        self.last_contact = self._clock()

    @property
    def age(self) -> float | None:
        """Seconds since the source was last heard of; None before the first time."""
        return None if self.last_contact is None else max(0.0, self._clock() - self.last_contact)

    def subscribe(self, listener: Listener[T]) -> Callable[[], None]:
        """Calls `listener` on every later change; the result ends the subscription.

        A change that the projection does not show is no change.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def upsert(self, obj: JSON) -> Key:
        """Keep the object (or drop it, if its projection is None); raises `PoisonError`."""
        key = key_of(obj)
        self._swap(key, self._prepare(key, obj))
        return key

    def remove(self, namespace: str, name: str) -> bool:
        """Forget the object; False if it was not there."""
        return self._swap((namespace, name), None) is not None

    def replace_all(self, objects: Iterable[JSON]) -> Diff:
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
        if old is not None and entry is not None and old.value == entry.value:
            if old.mark != entry.mark:
                self._entries[key] = replace(old, mark=entry.mark)
            return None
        for pair in old.index_keys if old else ():
            bucket = self._buckets[pair]
            bucket.discard(key)
            if not bucket:
                del self._buckets[pair]
        if entry is not None:
            self._entries[key] = entry
            for pair in entry.index_keys:
                self._buckets.setdefault(pair, set()).add(key)
        event: EventType = "ADDED" if old is None else "DELETED" if entry is None else "MODIFIED"
        self._notify(event, key, old.value if old else None, entry.value if entry else None)
        return event

    def _notify(self, event: EventType, key: Key, old: T | None, new: T | None) -> None:
        self._call(self._listeners, event, key, old, new)

    def _call(self, listeners: Iterable[Callable[..., None]], *arguments: object) -> None:
        for listener in tuple(listeners):
            try:
                listener(*arguments)
            except Exception:  # the wall: a listener's fault must not end the watch that feeds the others
                event = arguments[0] if arguments else "RENEWED"
                log.exception("store listener failed", event_type=event, key=arguments[1:2])


class Replacement(Generic[T]):
    """A new content under construction; the store shows the old one until `commit`."""

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self._entries: dict[Key, _Entry[T]] = {}

    def add(self, obj: JSON) -> None:
        """Project and add one object; raises `PoisonError`, and then the last good version of that object stays."""
        key = key_of(obj)
        try:
            entry = self._store._prepare(key, obj)  # noqa: SLF001 - one module, one concern
        except PoisonError:
            last_good = self._store._entries.get(key)  # noqa: SLF001
            if last_good is not None and not self._store.contradicts(obj):
                self._entries[key] = last_good
            raise
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry

    def differs(self) -> bool:
        """Whether a commit would change what the store shows."""
        held = self._store._entries  # noqa: SLF001
        return held.keys() != self._entries.keys() or any(
            held[key].value != entry.value for key, entry in self._entries.items()
        )

    def commit(self) -> Diff:
        """Make this the content and tell the listeners: deletions first, each kind in the order of names."""
        diff = Diff()
        for _ in self.steps(diff):
            pass
        return diff

    def steps(self, diff: Diff) -> Iterator[None]:
        """The same, one object a step, into `diff`: listeners may take milliseconds for each.

        In between the store shows some of each content, as it would after as many events.
        """
        swap = self._store._swap  # noqa: SLF001
        for key in sorted(self._store._entries.keys() - self._entries.keys()):  # noqa: SLF001
            swap(key, None)
            diff.deleted.append(key)
            yield
        for key in sorted(self._entries):
            event = swap(key, self._entries[key])
            if event == "ADDED":
                diff.added.append(key)
            elif event == "MODIFIED":
                diff.modified.append(key)
            yield
