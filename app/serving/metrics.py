"""What requests hold in memory, by port; and when this process's own certificate expires.

That certificate is what it serves with or, an agent, what it shows to the gateway. There is no series before the date
is known: a zero would look like an alarm.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache

from prometheus_client import Counter, Gauge

from app.metrics import published
from app.serving.memory import budgets

REQUEST_BYTES = Gauge(
    "port_request_bytes",
    "Bytes that requests hold until they are answered, by port",
    ("port",),
    multiprocess_mode="livesum",
)
REQUEST_BYTES_LIMIT = Gauge(
    "port_request_bytes_limit", "What port_request_bytes may be", ("port",), multiprocess_mode="livesum"
)
REQUESTS_WITHOUT_ROOM = Counter(
    "port_requests_without_room_total",
    "Requests for which there was no memory, by port and reason: full, or slow (it was incomplete, and gave way)",
    ("port", "reason"),
)


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


@published
def _publish() -> None:
    for budget in budgets:
        REQUEST_BYTES.labels(budget.port).set(budget.held)
        REQUEST_BYTES_LIMIT.labels(budget.port).set(budget.limit)
        for reason, count in budget.take_refused().items():
            REQUESTS_WITHOUT_ROOM.labels(budget.port, reason).inc(count)
