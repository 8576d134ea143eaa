"""What is measured of a process, and its exposition."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Gauge, generate_latest

EVENT_LOOP_LAG = Gauge(
    "event_loop_lag_seconds",
    "How late the event loop woke up, the worst of the last second",
    multiprocess_mode="livemax",
)


def exposition() -> tuple[bytes, str]:
    """The text exposition of this process and its content type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
