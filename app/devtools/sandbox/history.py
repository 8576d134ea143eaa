"""The history of one resource: changes in order, packed behind the latest ones, bounded in number and in bytes.

Owns what a watch or a page of the past can still see. Who writes, and with which version, is `storage`'s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Literal

from app.wire import JSON, decode_json, encode_json

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
_FRESH = 256
"""Latest events, which watches that keep up are still at: they stay as objects."""
_PAST_BYTES = 64 * 1024 * 1024
"""Packed bytes of one resource's history: large objects shorten the window."""


class CompactedError(Exception):
    """The asked version lies before the kept window; `oldest` is the first version that can be watched from."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


class Body:
    """An object of the past or the present; packed, it takes a small part of the memory and has to be decoded."""

    __slots__ = ("_object", "_packed")

    def __init__(self, obj: JSON) -> None:
        self._object: JSON | None = obj
        self._packed = b""

    def get(self) -> JSON:
        if self._object is not None:
            return self._object
        decoded: JSON = decode_json(self._packed)
        return decoded

    def pack(self) -> int:
        """Keep the text alone, and return its size in bytes."""
        if self._object is not None:
            self._packed = encode_json(self._object)
            self._object = None
        return len(self._packed)


class Removed(Body):
    """An object as its deletion shows it: as it was before, with the version of the removal. Keeps nothing itself."""

    __slots__ = ("_before", "_version")

    def __init__(self, before: Body, version: int) -> None:
        self._before = before
        self._version = str(version)

    def get(self) -> JSON:
        return versioned(self._before.get(), self._version)

    def pack(self) -> int:
        return 0


class Event:
    """One change; `previous` is the object before it (None for ADDED), `pair` its namespace and name."""

    __slots__ = ("_before", "_body", "encoded", "pair", "size", "type", "version")

    def __init__(self, version: int, kind: EventType, body: Body, before: Body | None) -> None:
        self.version = version
        self.type = kind
        self.pair = pair_of(body.get())
        self._body = body
        self._before = before
        self.size = 0
        """Bytes that only this event keeps; 0 as long as it is not packed."""
        self.encoded: dict[str, bytes] = {}
        """Lines rendered for watchers, by apiVersion: they are the same for every watcher."""

    @property
    def object(self) -> JSON:
        return self._body.get()

    @property
    def previous(self) -> JSON | None:
        return self._before.get() if self._before is not None else None

    def pack(self) -> int:
        """Shrink what is not live: the former object (each one precedes one event) and one that is deleted."""
        self.encoded.clear()
        self.size = self._before.pack() if self._before is not None else 0
        if self.type == "DELETED":
            self.size += self._body.pack()
        return self.size


class Table:
    """The objects and the recent history of one resource.

    The history is bounded twice: by the number of events, and by the bytes of objects that are in it alone.
    """

    def __init__(self, window: int, start: int) -> None:
        self.objects: dict[tuple[str, str], JSON] = {}
        self.bodies: dict[tuple[str, str], Body] = {}
        """The same objects, as their latest events hold them."""
        self.events: deque[Event] = deque()
        self.window = window
        self.past_bytes = 0
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
        if len(self.events) == self.window:
            self._evict()
        self.events.append(event)
        if len(self.events) > _FRESH:
            self.past_bytes += self.events[-_FRESH - 1].pack()
            while self.past_bytes > _PAST_BYTES and len(self.events) > _FRESH:
                self._evict()
        if event.type != "MODIFIED":
            self._order = None
        self.changed.set()
        self.changed = asyncio.Event()

    def _evict(self) -> None:
        event = self.events.popleft()
        self.past_bytes -= event.size
        self.oldest = event.version
        self.evicted += 1

    def forget(self, version: int) -> None:
        """Drop all history before `version`."""
        self.evicted += len(self.events)
        self.events.clear()
        self.past_bytes = 0
        self.oldest = version

    def replace(self, objects: Mapping[tuple[str, str], JSON], version: int) -> None:
        """Hold these objects, with no history before `version`."""
        self.forget(version)
        self.objects = dict(objects)
        self.bodies = {pair: Body(obj) for pair, obj in objects.items()}
        self._order = None

    def since(self, position: int) -> list[Event]:
        """Events from an absolute position on, oldest first; raises CompactedError where some have left the window."""
        if position < self.evicted:
            raise CompactedError(position, self.oldest)
        count = self.end - position
        return [self.events[index] for index in range(-count, 0)]


def versioned(obj: JSON, version: str) -> JSON:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}


def pair_of(obj: JSON) -> tuple[str, str]:
    metadata = obj["metadata"]
    return (metadata.get("namespace") or "", metadata["name"])
