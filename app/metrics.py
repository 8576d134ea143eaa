"""What all metrics share: their exposition, gauges that are read on each scrape, and the series of a process.

Series that alerts need are created at zero. No label has the name of one that Prometheus gives to the target (job,
instance, namespace, pod, service …), because Prometheus would rename ours. With `--workers` each worker writes into
files (PROMETHEUS_MULTIPROC_DIR), and the parent adds them up (`app.runtime.workers`).
"""

from __future__ import annotations

import os
import platform
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from importlib.metadata import version

import structlog
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client import Counter as CounterMetric

# The text format has no place for the times at which series began: they would be twice as many.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types here

EVENT_LOOP_LAG = Gauge(
    "event_loop_lag_seconds",
    "How late the event loop woke up, the worst of the last second",
    multiprocess_mode="livemax",
)
BUILD_INFO = Gauge(
    "berth_build_info", "1, with what runs as labels", ("version", "python", "role"), multiprocess_mode="livemax"
)


HANDLING_FAULTS = CounterMetric(
    "handling_faults_total",
    "Faults of Berth while an object was handled, which was dropped: by the task, or `metrics` for a failed publisher",
    ("loop",),
)


class BatchHistogram(Histogram):
    """A histogram that takes many observations for little more than the price of one."""

    def observe_all(self, amounts: Sequence[float]) -> None:
        self._sum.inc(sum(amounts))
        for bucket, count in Counter(bisect_left(self._upper_bounds, amount) for amount in amounts).items():
            self._buckets[bucket].inc(count)


class Shares:
    """Gauges of one label that show totals, and what each key has of these."""

    def __init__(self, *gauges: Gauge) -> None:
        self._gauges = gauges
        self._of: dict[Hashable, tuple[Mapping[str, int], ...]] = {}

    def set(self, key: Hashable, *counts: Mapping[str, int]) -> None:
        """What the key has now, by label, in the order of the gauges; what is left out is none."""
        nothing: Mapping[str, int] = {}
        filled = (*counts, *[nothing] * (len(self._gauges) - len(counts)))
        before = self._of.pop(key, (nothing,) * len(self._gauges))
        if any(counts):
            self._of[key] = filled
        for gauge, old, new in zip(self._gauges, before, filled, strict=True):
            for label in {*old, *new}:
                if change := new.get(label, 0) - old.get(label, 0):
                    gauge.labels(label).inc(change)

    def clear(self) -> None:
        """The term of leadership has ended: another replica reports."""
        for key in tuple(self._of):
            self.set(key)


_log = structlog.get_logger(__name__)
_SILENCE = 60.0
"""Seconds between two lines about a publisher that fails at each exposition."""
_publishers: list[Callable[[], None]] = []
_logged: dict[Callable[[], None], float] = {}
"""When a failure of a publisher was logged last."""


def describe(role: str) -> None:
    BUILD_INFO.labels(version("berth"), platform.python_version(), role).set(1)


def published(publisher: Callable[[], None]) -> Callable[[], None]:
    """Decorator: have this function set its gauges before each exposition."""
    _publishers.append(publisher)
    return publisher


def publish() -> None:
    """Have all publishers set their gauges. One that raises keeps its last figures, and is counted and logged."""
    for publisher in _publishers:
        try:
            publisher()
        except Exception:  # noqa: BLE001  the wall: alerts rest upon the figures of the others
            HANDLING_FAULTS.labels("metrics").inc()
            now = time.monotonic()
            if now - _logged.get(publisher, -_SILENCE) >= _SILENCE:
                _logged[publisher] = now
                _log.exception("metrics not published", publisher=f"{publisher.__module__}.{publisher.__qualname__}")


def forget(gauge: Gauge, value: str) -> None:
    """Drop a gauge's series of this one label; a worker's ends with the worker, and cannot be dropped before."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        gauge.remove(value)


def exposition() -> tuple[bytes, str]:
    """The text exposition of this process and its content type."""
    publish()
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
