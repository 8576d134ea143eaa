"""What is measured of a process, and its exposition."""

from __future__ import annotations

from datetime import datetime

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Gauge, generate_latest

CERT_NOT_AFTER = Gauge(
    "cert_not_after_seconds", "Unix time at which the served certificate expires", multiprocess_mode="livemin"
)
EVENT_LOOP_LAG = Gauge(
    "event_loop_lag_seconds",
    "How late the event loop woke up, the worst of the last second",
    multiprocess_mode="livemax",
)


def refresh(not_after: datetime | None) -> None:
    """Set the gauge of the served certificate's end."""
    if not_after is not None:
        CERT_NOT_AFTER.set(not_after.timestamp())


def exposition() -> tuple[bytes, str]:
    """The text exposition of this process and its content type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
