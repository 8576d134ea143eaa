"""When this process's own certificate expires: what it serves with or, an agent, what it shows to the gateway.

There is no series before the date is known: a zero would look like an alarm.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache

from prometheus_client import Gauge


@cache
def _gauge() -> Gauge:
    return Gauge(
        "cert_not_after_seconds", "Unix time at which the process's certificate expires", multiprocess_mode="livemin"
    )


def refresh(not_after: datetime | None) -> None:
    """Set the gauge of the certificate's end."""
    if not_after is not None:
        _gauge().set(not_after.timestamp())


def follow(not_after: Callable[[], datetime]) -> None:
    """Ask for the certificate's end at each scrape; not for a process with workers."""
    _gauge().set_function(lambda: not_after().timestamp())
