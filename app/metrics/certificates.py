"""When the served certificate ends. Imported by roles that keep it up to date: a zero would look like an alarm."""

from __future__ import annotations

from datetime import datetime

from prometheus_client import Gauge

CERT_NOT_AFTER = Gauge(
    "cert_not_after_seconds", "Unix time at which the served certificate expires", multiprocess_mode="livemin"
)


def refresh(not_after: datetime | None) -> None:
    """Set the gauge of the served certificate's end."""
    if not_after is not None:
        CERT_NOT_AFTER.set(not_after.timestamp())
