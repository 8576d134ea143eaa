"""What is counted of watches and caches."""

from __future__ import annotations

import time
from collections.abc import Mapping

from prometheus_client import Counter, Gauge

RESTART_REASONS = (
    *("eof", "idle", "expired", "transport", "unauthorized", "forbidden", "missing", "throttled"),
    *("server_error", "client_error", "internal"),
)

WATCH_RESTARTS = Counter("watch_restarts_total", "Watches that ended and were started again", ("kind", "reason"))
POISON_OBJECTS = Counter("watch_poison_objects_total", "Objects that could not be read and were skipped", ("kind",))
CACHE_OBJECTS = Gauge("cache_objects", "Objects in the cache", ("kind",), multiprocess_mode="livemax")
CACHE_AGE = Gauge(
    "cache_age_seconds", "Time since the API server was last heard of", ("kind",), multiprocess_mode="livemax"
)


def create_series(kinds: tuple[str, ...]) -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for kind in kinds:
        POISON_OBJECTS.labels(kind)
        CACHE_OBJECTS.labels(kind).set(0)
        for reason in RESTART_REASONS:
            WATCH_RESTARTS.labels(kind, reason)


class WatchMetrics:
    """Told by the reflectors of `app.kube`."""

    def restart(self, kind: str, reason: str) -> None:
        WATCH_RESTARTS.labels(kind, reason).inc()

    def objects(self, kind: str, count: int) -> None:
        CACHE_OBJECTS.labels(kind).set(count)

    def poison(self, kind: str) -> None:
        POISON_OBJECTS.labels(kind).inc()


class AgingWatchMetrics(WatchMetrics):
    """Gives the ages of the caches too, as of each scrape: not for a process with workers.

    An API server is heard of when it lists or says anything, if only where it stands. `forget` when the caches end.
    """

    def __init__(self) -> None:
        self._heard: dict[str, float] = {}

    def objects(self, kind: str, count: int) -> None:
        super().objects(kind, count)
        first = kind not in self._heard
        self._heard[kind] = time.monotonic()
        if first:
            CACHE_AGE.labels(kind).set_function(lambda: time.monotonic() - self._heard[kind])

    def forget(self) -> None:
        """There are no caches any more, and so no ages."""
        for kind in self._heard:
            CACHE_AGE.remove(kind)


def refresh(last_contacts: Mapping[str, float]) -> None:
    """Set the ages of the caches; `last_contacts` are monotonic seconds by kind."""
    now = time.monotonic()
    for kind, contact in last_contacts.items():
        CACHE_AGE.labels(kind).set(max(0.0, now - contact))
