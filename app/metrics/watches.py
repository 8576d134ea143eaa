"""Metrics of watches and caches."""

from __future__ import annotations

import time
from typing import Any

from prometheus_client import Counter, Gauge

from app.kube.store import Store
from app.metrics.publishing import forget, published

RESTART_REASONS = (
    *("eof", "relist", "idle", "expired", "transport", "unauthorized", "forbidden", "missing", "throttled"),
    *("server_error", "client_error", "contradiction", "internal"),
)

WATCH_RESTARTS = Counter("watch_restarts_total", "Watches that ended and were started again", ("kind", "reason"))
POISON_OBJECTS = Counter("watch_poison_objects_total", "Objects that could not be read and were skipped", ("kind",))
CACHE_OBJECTS = Gauge("cache_objects", "Objects in the cache", ("kind",), multiprocess_mode="livemax")
CACHE_IN_DOUBT = Gauge(
    "cache_in_doubt",
    "1 while the cache may differ from the API server: from a fault of its watch until it is compared with a list",
    ("kind",),
    multiprocess_mode="livemax",
)
CACHE_AGE = Gauge(
    "cache_age_seconds",
    "Time since the API server was last heard of; until it has been, since the cache began",
    ("kind",),
    multiprocess_mode="livemax",
)

_kept: dict[str, list[tuple[Store[Any], float]]] = {}
"""The caches of this process by kind, with the monotonic time since when each is kept."""


def create_series(kinds: tuple[str, ...]) -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for kind in kinds:
        POISON_OBJECTS.labels(kind)
        CACHE_OBJECTS.labels(kind)
        CACHE_IN_DOUBT.labels(kind)
        for reason in RESTART_REASONS:
            WATCH_RESTARTS.labels(kind, reason)


class WatchMetrics:
    """Told by what keeps caches, in `app.kube`.

    A kind has an age while a cache of it is kept: a replica that does not lead keeps none, and must not look stale.
    """

    def began(self, kind: str, cache: Store[Any]) -> None:
        _kept.setdefault(kind, []).append((cache, time.monotonic()))

    def ended(self, kind: str, cache: Store[Any]) -> None:
        _kept[kind] = [(kept, since) for kept, since in _kept.get(kind, ()) if kept is not cache]
        if not _kept[kind]:
            del _kept[kind]
            forget(CACHE_AGE, kind)
            CACHE_OBJECTS.labels(kind).set(0)
            CACHE_IN_DOUBT.labels(kind).set(0)

    def restart(self, kind: str, reason: str) -> None:
        WATCH_RESTARTS.labels(kind, reason).inc()

    def poison(self, kind: str) -> None:
        POISON_OBJECTS.labels(kind).inc()


@published
def _publish() -> None:
    """Of several caches of one kind the oldest counts, a doubt of any, and what all of them hold."""
    now = time.monotonic()
    for kind, caches in _kept.items():
        CACHE_OBJECTS.labels(kind).set(sum(len(cache) for cache, _ in caches))
        CACHE_IN_DOUBT.labels(kind).set(any(cache.in_doubt for cache, _ in caches))
        ages = [now - since if cache.age is None else cache.age for cache, since in caches]
        CACHE_AGE.labels(kind).set(max(ages))
