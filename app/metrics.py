"""What all metrics share: their exposition, gauges that are read on each scrape, and the series of a process.

Series that alerts need are created at zero. No label has the name of one that Prometheus gives to the target (job,
instance, namespace, pod, service …), because Prometheus would rename ours. With `--workers` each worker writes into
files (PROMETHEUS_MULTIPROC_DIR), and the parent adds them up (`app.runtime.workers`).
"""

from __future__ import annotations

import os
import platform
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Gauge, Histogram, disable_created_metrics, generate_latest

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


class BatchHistogram(Histogram):
    """A histogram that takes many observations for little more than the price of one."""

    def observe_all(self, amounts: Sequence[float]) -> None:
        self._sum.inc(sum(amounts))
        for bucket, count in Counter(bisect_left(self._upper_bounds, amount) for amount in amounts).items():
            self._buckets[bucket].inc(count)


_publishers: list[Callable[[], None]] = []


def describe(role: str) -> None:
    BUILD_INFO.labels(version("berth"), platform.python_version(), role).set(1)


def published(publisher: Callable[[], None]) -> Callable[[], None]:
    """Decorator: have this function set its gauges before each exposition."""
    _publishers.append(publisher)
    return publisher


def publish() -> None:
    for publisher in _publishers:
        publisher()


def forget(gauge: Gauge, value: str) -> None:
    """Drop a gauge's series of this one label; a worker's ends with the worker, and cannot be dropped before."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        gauge.remove(value)


def exposition() -> tuple[bytes, str]:
    """The text exposition of this process and its content type."""
    publish()
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
