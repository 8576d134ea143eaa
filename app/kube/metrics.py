"""Metrics of watches and caches, of reconcilers and leader election, and of the Events that a role writes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from app.kube.store import Store
from app.metrics import forget, published

RESTART_REASONS = (
    *("eof", "relist", "idle", "expired", "transport", "unauthorized", "forbidden", "missing", "throttled"),
    *("server_error", "client_error", "contradiction", "internal"),
)
RECONCILE_OUTCOMES = ("done", "requeue", "transient", "terminal", "internal")
EVENT_OUTCOMES = ("recorded", "aggregated", "dropped", "failed")
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

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
RECONCILES = Counter("reconcile_total", "Keys reconciled, by controller and result", ("controller", "result"))
RECONCILE_DURATION = Histogram("reconcile_duration_seconds", "Time of one reconcile", ("controller",), buckets=_BUCKETS)
QUEUE_DEPTH = Gauge("queue_depth", "Keys that wait for a worker", ("controller",), multiprocess_mode="livesum")
LEADER = Gauge("leader", "1 while this process holds the lease", ("lease",), multiprocess_mode="livemax")
EVENTS = Counter(
    "events_total",
    "Events by outcome: new, aggregated into one that is there, dropped unwritten, failed at the API server",
    ("component", "outcome"),
)

_caches: dict[str, list[tuple[Store[Any], float]]] = {}
"""The caches that are kept in this process by kind, each with the monotonic time since when."""
_queues: dict[str, list[Sized]] = {}
"""The queues of the controllers that run in this process, by the name of the controller."""


def create_watch_series(kind: str) -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    POISON_OBJECTS.labels(kind)
    CACHE_OBJECTS.labels(kind)
    CACHE_IN_DOUBT.labels(kind)
    for reason in RESTART_REASONS:
        WATCH_RESTARTS.labels(kind, reason)


def create_controller_series(controller: str) -> None:
    """As for a watch."""
    RECONCILE_DURATION.labels(controller)
    QUEUE_DEPTH.labels(controller).set(0)
    for outcome in RECONCILE_OUTCOMES:
        RECONCILES.labels(controller, outcome)


@contextmanager
def caches_kept(caches: Iterable[tuple[str, Store[Any]]]) -> Iterator[None]:
    """A kind has an age while a cache of it is kept: a standby replica keeps none, and must not look stale."""
    now, caches = time.monotonic(), tuple(caches)
    for kind, cache in caches:
        _caches.setdefault(kind, []).append((cache, now))
    try:
        yield
    finally:
        for kind, cache in caches:
            _caches[kind].remove((cache, now))
            if not _caches[kind]:
                del _caches[kind]
                forget(CACHE_AGE, kind)
                CACHE_OBJECTS.labels(kind).set(0)
                CACHE_IN_DOUBT.labels(kind).set(0)


@contextmanager
def controller_running(controller: str, queue: Sized) -> Iterator[None]:
    """Measures its queue."""
    queues = _queues.setdefault(controller, [])
    queues.append(queue)
    try:
        yield
    finally:
        queues.remove(queue)
        if not queues:
            del _queues[controller]
            QUEUE_DEPTH.labels(controller).set(0)


@published
def _publish() -> None:
    """Of several caches of one kind the oldest counts, a doubt of any, and what all of them hold."""
    now = time.monotonic()
    for kind, caches in _caches.items():
        CACHE_OBJECTS.labels(kind).set(sum(len(cache) for cache, _ in caches))
        CACHE_IN_DOUBT.labels(kind).set(any(cache.in_doubt for cache, _ in caches))
        ages = [now - since if cache.age is None else cache.age for cache, since in caches]
        CACHE_AGE.labels(kind).set(max(ages))
    for controller, queues in _queues.items():
        QUEUE_DEPTH.labels(controller).set(sum(map(len, queues)))
