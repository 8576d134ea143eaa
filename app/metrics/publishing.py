"""Metrics of live objects, computed on each scrape instead of being updated on every change.

The parent of the workers answers scrapes from files, so the workers are not scraped: they publish from time to time.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from prometheus_client import Gauge

_publishers: list[Callable[[], None]] = []


def published(publisher: Callable[[], None]) -> Callable[[], None]:
    """Decorator: have this function set its gauges before each exposition."""
    _publishers.append(publisher)
    return publisher


def forget(gauge: Gauge, value: str) -> None:
    """Drop a gauge's series of this one label; a worker's ends with the worker, and cannot be dropped before."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        gauge.remove(value)


def publish() -> None:
    """Set every gauge that is read from something living."""
    for publisher in _publishers:
        publisher()
