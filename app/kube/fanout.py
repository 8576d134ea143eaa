"""The caches that one list and watch keeps: each with its own projection, and its own objects that it cannot keep."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import structlog

from app.kube import metrics
from app.kube.resources import Resource
from app.kube.store import PoisonError, Replacement, Store, key_of
from app.metrics import HANDLING_FAULTS
from app.wire import JSON

log = structlog.get_logger(__name__)
_SLICE = 0.005
"""Seconds that the event loop is held at a time while a list comes into a store."""


class Fanout:
    """Stores of objects of one `resource`. What each is called in the metrics distinguishes several of one kind."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self._caches: list[tuple[str, Store[Any]]] = []

    def add(self, store: Store[Any], called: str) -> None:
        self._caches.append((called or self.resource.kind, store))

    @property
    def stores(self) -> tuple[Store[Any], ...]:
        return tuple(store for _, store in self._caches)

    @property
    def called(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(called for called, _ in self._caches))

    def kept(self) -> AbstractContextManager[None]:
        """The metrics have the caches meanwhile."""
        return metrics.caches_kept(self._caches)

    def touch(self) -> None:
        """The API server has just been heard of."""
        for _, store in self._caches:
            store.touch()

    def suspect(self) -> None:
        """The API server may have been replaced, or restored."""
        for _, store in self._caches:
            store.suspect()

    def contradicts(self, obj: JSON) -> bool:
        """Whether a cache holds an object of the name with another uid; raises `PoisonError`."""
        return any(store.contradicts(obj) for _, store in self._caches)

    def upsert(self, obj: JSON) -> None:
        for called, store in self._caches:
            try:
                store.upsert(obj)
            except PoisonError as error:
                self.skip(called, error)

    def remove(self, obj: JSON) -> None:
        """Raises `PoisonError`."""
        key = key_of(obj)
        for _, store in self._caches:
            store.remove(*key)

    def replace_all(self, objects: Iterable[JSON]) -> None:
        """Make these few objects the whole content. A cache that cannot keep one of them stays as it is."""
        for called, store in self._caches:
            try:
                store.replace_all(objects)
            except PoisonError as error:
                self.skip(called, error)
            store.mark_synced()

    def poison(self, error: Exception) -> None:
        """An object that no cache can keep is skipped."""
        for called in self.called:
            self.skip(called, error)

    def skip(self, called: str, error: Exception) -> None:
        """An object that one cache cannot keep is missing there."""
        log.warning("object skipped", kind=self.resource.kind, error=str(error) or type(error).__name__)
        metrics.POISON_OBJECTS.labels(called).inc()

    def count_failures(self) -> None:
        """A store is pure, and only says how often a listener has raised."""
        for _, store in self._caches:
            if store.failures:
                HANDLING_FAULTS.labels(f"watch-{self.resource.plural}").inc(store.failures)
                store.failures = 0

    def replacement(self) -> Renewal:
        """A new content of all of them, to be filled page by page."""
        return Renewal(self, [(called, store, store.replacement()) for called, store in self._caches])


class Renewal:
    """A new content under construction of the caches of a `Fanout`."""

    def __init__(self, fanout: Fanout, parts: list[tuple[str, Store[Any], Replacement[Any]]]) -> None:
        self._fanout, self._parts = fanout, parts

    def add(self, obj: JSON) -> None:
        for called, _, replacement in self._parts:
            try:
                replacement.add(obj)
            except PoisonError as error:
                self._fanout.skip(called, error)

    def suspect_where_it_differs(self) -> None:
        for _, store, replacement in self._parts:
            if replacement.differs():
                store.suspect()

    async def commit(self) -> None:
        """Make each store what is listed, and its doubt is over."""
        for _, store, replacement in self._parts:
            changes, end = Counter[str | None](), time.perf_counter() + _SLICE
            for event, _ in replacement.steps():
                changes[event] += 1
                if time.perf_counter() >= end:
                    await asyncio.sleep(0)
                    end = time.perf_counter() + _SLICE
            (log.info if store.in_doubt else log.debug)(
                "listed",
                kind=self._fanout.resource.kind,
                objects=len(store),
                added=changes["ADDED"],
                modified=changes["MODIFIED"],
                deleted=changes["DELETED"],
            )
            store.mark_synced()
        self._fanout.count_failures()
