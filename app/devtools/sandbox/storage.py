"""The objects of one cluster in memory: versions, history and change notification.

Owns resource versions; the kept window of changes is `history`'s. Stored objects are never
changed in place: a write stores a new one, so that readers may hold what they read. Knows nothing of HTTP or kinds.
"""

from __future__ import annotations

import asyncio
import uuid
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from app.devtools.sandbox.history import Body, CompactedError, Event, EventType, Removed, Table, pair_of, versioned
from app.text import stamp, utc_now
from app.wire import JSON, encode_json

if TYPE_CHECKING:
    from collections.abc import Callable

Key = tuple[str, str]
"""Group and plural: versions of one resource share their objects."""

_MOST_FIELD_SETS = 1024


class AlreadyExistsError(Exception):
    """An object of this name is stored."""


class MissingError(Exception):
    """No object of this name is stored."""


class ConflictError(Exception):
    """The stored object is not of the version that the write was based on."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a storage held at one time, without history."""

    version: int
    objects: Mapping[Key, Mapping[tuple[str, str], JSON]]


class Storage:
    """All objects of a cluster, keyed by resource, namespace ("" for cluster scope) and name.

    `window` is how many changes of each resource are kept for watches and consistent pages. Versions begin with the
    time in microseconds: a client that knows a version of an earlier storage, behind the same address, is told that it
    is too old instead of missing what happened since.
    """

    def __init__(self, *, window: int = 10_000, clock: Callable[[], datetime] | None = None) -> None:
        self._window = window
        self.clock = clock or utc_now
        """What time it is; it may be set to another."""
        self.tables: dict[Key, Table] = {}
        """By kind; those that have had objects."""
        self._start = int(self.clock().timestamp() * 1_000_000)
        self._version = self._start
        self._field_sets: dict[bytes, Any] = {}
        self.closed = False

    @property
    def version(self) -> int:
        """The version of the latest write."""
        return self._version

    def now(self) -> str:
        """The time in the form and precision (seconds) of object metadata."""
        return stamp(self.clock())

    def table(self, key: Key) -> Table:
        table = self.tables.get(key)
        if table is None:
            table = self.tables[key] = Table(self._window, self._start)
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
        first: dict[tuple[str, str], Event] = {}
        for event in reversed(table.events):
            if event.version <= version:
                break
            first[event.pair] = event
        for pair, event in first.items():  # the first change since tells what was before all of them
            before = event.previous
            if before is None:
                objects.pop(pair, None)
            else:
                objects[pair] = before
        return objects

    def create(self, key: Key, obj: JSON) -> JSON:
        """Store a new object and return it with version, uid and creation time; takes ownership of `obj`."""
        table = self.table(key)
        pair = pair_of(obj)
        if pair in table.objects:
            raise AlreadyExistsError(pair)
        metadata = obj["metadata"]
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", self.now())
        return self._write(table, pair, obj, "ADDED")

    def update(self, key: Key, obj: JSON, *, expected: str = "") -> JSON:
        """Replace an object; `expected` is the version that must be stored, "" for any. Takes ownership of `obj`."""
        table = self.table(key)
        pair = pair_of(obj)
        current = table.objects.get(pair)
        if current is None:
            raise MissingError(pair)
        if expected and expected != current["metadata"]["resourceVersion"]:
            raise ConflictError(pair)
        return self._write(table, pair, obj, "MODIFIED")

    def delete(self, key: Key, namespace: str, name: str, *, last: JSON | None = None) -> JSON:
        """Remove an object; watchers see `last`, or its stored state, with the version of the removal."""
        table = self.table(key)
        current = table.objects.pop((namespace, name), None)
        if current is None:
            raise MissingError((namespace, name))
        self._version += 1
        before = table.bodies.pop((namespace, name))
        version = str(self._version)
        removed = Removed(before, self._version) if last is None else Body(versioned(last, version))
        table.record(Event(self._version, "DELETED", removed, before))
        return removed.get()

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
        for table in self.tables.values():
            table.forget(self._version)

    def snapshot(self) -> Snapshot:
        """What is stored now; cheap, for stored objects never change."""
        return Snapshot(self._version, {key: dict(table.objects) for key, table in self.tables.items()})

    def restore(self, snapshot: Snapshot) -> None:
        """Become what the snapshot holds, version included, as etcd does; while no server serves this storage.

        Later writes are given versions again that were given before.
        """
        self._version = self._start = snapshot.version
        for key in self.tables.keys() | snapshot.objects.keys():
            self.table(key).replace(snapshot.objects.get(key, {}), snapshot.version)

    def reopen(self) -> None:
        """Serve watches again after `close`."""
        self.closed = False
        for table in self.tables.values():
            table.changed = asyncio.Event()

    def close(self) -> None:
        """Wake every watch so that it can end."""
        self.closed = True
        for table in self.tables.values():
            table.changed.set()

    def _share_fields(self, obj: JSON) -> None:
        """Field sets of managers are large and mostly alike: equal ones are stored once, as they never change."""
        for entry in obj["metadata"].get("managedFields") or ():
            if "fieldsV1" not in entry:
                continue
            text = encode_json(entry["fieldsV1"])
            shared = self._field_sets.get(text)
            if shared is None:
                if len(self._field_sets) >= _MOST_FIELD_SETS:
                    self._field_sets.clear()
                shared = self._field_sets[text] = entry["fieldsV1"]
            entry["fieldsV1"] = shared

    def _write(self, table: Table, pair: tuple[str, str], obj: JSON, kind: EventType) -> JSON:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self._share_fields(obj)
        before, body = table.bodies.get(pair), Body(obj)
        table.objects[pair], table.bodies[pair] = obj, body
        table.record(Event(self._version, kind, body, before))
        return obj
