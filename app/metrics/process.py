"""Metrics of a process, and their exposition."""

from __future__ import annotations

import platform
from importlib.metadata import version

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Gauge, generate_latest

from app.metrics.publishing import publish

EVENT_LOOP_LAG = Gauge(
    "event_loop_lag_seconds",
    "How late the event loop woke up, the worst of the last second",
    multiprocess_mode="livemax",
)
BUILD_INFO = Gauge(
    "berth_build_info", "1, with what runs as labels", ("version", "python", "role"), multiprocess_mode="livemax"
)


def describe(role: str) -> None:
    """Say what runs."""
    BUILD_INFO.labels(version("berth"), platform.python_version(), role).set(1)


def exposition() -> tuple[bytes, str]:
    """The text exposition of this process and its content type."""
    publish()
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
