"""Remembers our own writes until the watch shows them, so that a cache that lags causes no second write.

Overlays the companions' cache: an entry ends when the watch shows the same, or after its time. It sends nothing and
is lost at a restart, where the cache is fresh.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.workloads.companions.marks import Companion
from app.workloads.model import ObjectKey

LIFETIME = 10.0
_REMEMBERED = 1024
"""Deletions; an answer that comes later than so many of the watch's has its whole lifetime."""


class Expectations:
    """Companions as our last write left them. `cached` is what the watch has shown; `lifetime` is in seconds."""

    def __init__(
        self,
        cached: Callable[[ObjectKey], Companion | None],
        *,
        lifetime: float = LIFETIME,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cached = cached
        self._lifetime = lifetime
        self._clock = clock
        self._expected: dict[ObjectKey, Companion] = {}
        self._by_workload: dict[ObjectKey, set[ObjectKey]] = {}
        # In the order of their ends, since all live equally long; some have been met, or replaced, by then.
        self._ends: dict[ObjectKey, float] = {}
        self._gone: dict[str, None] = {}
        self._writing: set[ObjectKey] = set()

    def expect(self, companion: Companion) -> None:
        """The companion is like this now, or `ending` or gone. The watch may have been faster than the answer."""
        self._drop(companion.key)
        cached = self._cached(companion.key)
        if companion.uid in self._gone or (cached is not None and cached.version >= companion.version):
            return
        self._expected[companion.key] = companion
        self._by_workload.setdefault(companion.workload, set()).add(companion.key)
        self._ends[companion.key] = self._clock() + self._lifetime

    @contextmanager
    def writing(self, key: ObjectKey) -> Iterator[None]:
        """What the watch shows meanwhile is most likely our own write; the writer looks whether it was."""
        self._writing.add(key)
        try:
            yield
        finally:
            self._writing.discard(key)

    def get(self, key: ObjectKey) -> Companion | None:
        return self._expected.get(key)

    def of_workload(self, workload: ObjectKey) -> list[Companion]:
        return [self._expected[key] for key in self._by_workload.get(workload, ())]

    def seen(self, key: ObjectKey, old: Companion | None, new: Companion | None) -> bool:
        """Take note of a change from the watch; True if it needs no reconcile: expected, or under way by a writer."""
        if old is not None and (new is None or new.uid != old.uid):
            self._gone[old.uid] = None
            if len(self._gone) > _REMEMBERED:
                del self._gone[next(iter(self._gone))]
        expected = self._expected.get(key)
        if expected is None:
            return key in self._writing
        # The end of a predecessor says nothing of what we have made since.
        if expected.uid in self._gone or (new is not None and new.version >= expected.version):
            self._drop(key)
        return new == expected

    def clear(self) -> None:
        """The API server that took our writes may have been replaced: nothing is known of them any more."""
        for key in list(self._expected):
            self._drop(key)
        self._gone.clear()

    def expire(self) -> set[ObjectKey]:
        """Give up what the watch has not shown in time; the result are the workloads to look at again."""
        now = self._clock()
        workloads: set[ObjectKey] = set()
        while self._ends:
            key, end = next(iter(self._ends.items()))
            if end > now:
                break
            workloads.add(self._expected[key].workload)
            self._drop(key)
        return workloads

    def _drop(self, key: ObjectKey) -> None:
        self._ends.pop(key, None)
        expected = self._expected.pop(key, None)
        if expected is None:
            return
        keys = self._by_workload[expected.workload]
        keys.discard(key)
        if not keys:
            del self._by_workload[expected.workload]
