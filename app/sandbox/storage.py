"""The objects of one cluster in memory: versions, history and change notification.

Owns resource versions and the kept window of history. Stored objects are never changed in place: a write stores
a new one, so that readers may hold what they read. Knows nothing of HTTP, admission or kinds.
"""

from __future__ import annotations

import asyncio
import uuid
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.wire import JSON

Key = tuple[str, str]
"""Group and plural: versions of one resource share their objects."""

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class AlreadyExistsError(Exception):
    """An object of this name is stored."""


class MissingError(Exception):
    """No object of this name is stored."""


class ConflictError(Exception):
    """The stored object is not of the version that the write was based on."""


class CompactedError(Exception):
    """The asked version lies before the kept window; `oldest` is the first version that can be watched from."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


@dataclass(slots=True)
class Event:
    """One change; `previous` is the object before it (None for ADDED)."""

    version: int
    type: EventType
    object: JSON
    previous: JSON | None
    encoded: dict[str, bytes] = field(default_factory=dict)
    """Lines rendered for watchers, by apiVersion: they are the same for every watcher."""


class Table:
    """The objects and the recent history of one resource."""

    def __init__(self, window: int, start: int) -> None:
        self.objects: dict[tuple[str, str], JSON] = {}
        self.events: deque[Event] = deque(maxlen=window)
        self.evicted = 0
        """How many events have left the window: absolute position = evicted + index."""
        self.oldest = start
        """The version from which on the history is complete."""
        self.changed = asyncio.Event()
        self._order: list[tuple[str, str]] | None = None

    def order(self) -> list[tuple[str, str]]:
        """Keys as the API server lists them: by namespace, then by name."""
        if self._order is None:
            self._order = sorted(self.objects)
        return self._order

    @property
    def end(self) -> int:
        """The absolute position after the latest event."""
        return self.evicted + len(self.events)

    def record(self, event: Event) -> None:
        if len(self.events) == self.events.maxlen:
            self.oldest = self.events[0].version
            self.evicted += 1
        self.events.append(event)
        if event.type != "MODIFIED":
            self._order = None
        self.changed.set()
        self.changed = asyncio.Event()

    def since(self, position: int) -> list[Event]:
        """Events from an absolute position on, oldest first; raises CompactedError where some have left the window."""
        if position < self.evicted:
            raise CompactedError(position, self.oldest)
        count = self.end - position
        return [self.events[index] for index in range(-count, 0)]


class Storage:
    """All objects of a cluster, keyed by resource, namespace ("" for cluster scope) and name.

    `window` is how many changes of each resource are kept for watches and consistent pages. Versions begin with the
    time in microseconds: a client that knows a version of an earlier storage, behind the same address, is told that it
    is too old instead of missing what happened since.
    """

    def __init__(self, *, window: int = 10_000, clock: Callable[[], datetime] | None = None) -> None:
        self._window = window
        self._clock = clock or (lambda: datetime.now(UTC))
        self._tables: dict[Key, Table] = {}
        self._start = int(self._clock().timestamp() * 1_000_000)
        self._version = self._start
        self.closed = False

    @property
    def version(self) -> int:
        """The version of the latest write."""
        return self._version

    def now(self) -> str:
        """The time in the form and precision (seconds) of object metadata."""
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    def table(self, key: Key) -> Table:
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = Table(self._window, self._start)
        return table

    def drop(self, key: Key) -> None:
        """Forget a resource that is served no more; its watches see every object deleted first."""
        for namespace, name in list(self.table(key).order()):
            self.delete(key, namespace, name)

    def get(self, key: Key, namespace: str, name: str) -> JSON | None:
        return self.table(key).objects.get((namespace, name))

    def list(self, key: Key, namespace: str = "") -> list[JSON]:
        """Objects in order; all namespaces where `namespace` is ""."""
        table = self.table(key)
        if namespace:
            return [table.objects[pair] for pair in table.order() if pair[0] == namespace]
        return [table.objects[pair] for pair in table.order()]

    def list_at(self, key: Key, version: int) -> dict[tuple[str, str], JSON]:
        """All objects as they were at `version`; raises CompactedError where the history does not reach back."""
        table = self.table(key)
        if version < table.oldest:
            raise CompactedError(version, table.oldest)
        objects = dict(table.objects)
        for event in reversed(table.events):
            if event.version <= version:
                break
            pair = _pair(event.object)
            if event.previous is None:
                objects.pop(pair, None)
            else:
                objects[pair] = event.previous
        return objects

    def create(self, key: Key, obj: JSON) -> JSON:
        """Store a new object and return it with version, uid and creation time; takes ownership of `obj`."""
        table = self.table(key)
        pair = _pair(obj)
        if pair in table.objects:
            raise AlreadyExistsError(pair)
        metadata = obj["metadata"]
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", self.now())
        return self._write(table, pair, obj, "ADDED", None)

    def update(self, key: Key, obj: JSON, *, expected: str = "") -> JSON:
        """Replace an object; `expected` is the version that must be stored, "" for any. Takes ownership of `obj`."""
        table = self.table(key)
        pair = _pair(obj)
        current = table.objects.get(pair)
        if current is None:
            raise MissingError(pair)
        if expected and expected != current["metadata"]["resourceVersion"]:
            raise ConflictError(pair)
        return self._write(table, pair, obj, "MODIFIED", current)

    def delete(self, key: Key, namespace: str, name: str, *, last: JSON | None = None) -> JSON:
        """Remove an object; watchers see `last`, or its stored state, with the version of the removal."""
        table = self.table(key)
        current = table.objects.pop((namespace, name), None)
        if current is None:
            raise MissingError((namespace, name))
        self._version += 1
        final = last or current
        final = {**final, "metadata": {**final["metadata"], "resourceVersion": str(self._version)}}
        table.record(Event(self._version, "DELETED", final, current))
        return final

    def position(self, key: Key, version: int) -> int:
        """Where a watch from `version` starts in the history; raises CompactedError where that is gone."""
        table = self.table(key)
        if version < table.oldest:
            raise CompactedError(version, table.oldest)
        if not table.events or table.events[-1].version <= version:
            return table.end
        return table.evicted + bisect_right(table.events, version, key=lambda event: event.version)

    def compact(self) -> None:
        """Forget all history, as etcd does from time to time: older versions answer 410 from now on."""
        self._start = self._version
        for table in self._tables.values():
            table.evicted += len(table.events)
            table.events.clear()
            table.oldest = self._version

    def close(self) -> None:
        """Wake every watch so that it can end."""
        self.closed = True
        for table in self._tables.values():
            table.changed.set()

    def _write(self, table: Table, pair: tuple[str, str], obj: JSON, kind: EventType, previous: JSON | None) -> JSON:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        table.objects[pair] = obj
        table.record(Event(self._version, kind, obj, previous))
        return obj


def _pair(obj: JSON) -> tuple[str, str]:
    metadata = obj["metadata"]
    return (metadata.get("namespace") or "", metadata["name"])
