"""When certificates end: this process's own, and those that `berth certificates` keeps in Secrets.

Its own is what it serves with or, an agent, what it shows to the gateway. There is no series before the date is known:
a zero would look like an alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache

from prometheus_client import Counter, Gauge

MANAGED = Gauge("cert_managed_not_after_seconds", "Unix time at which the certificate in a Secret expires", ("secret",))
RENEWALS = Counter("cert_renewals_total", "Certificates written into a Secret, the first included", ("secret",))


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


def create_series(secrets: Sequence[str]) -> None:
    """Create what counts renewals at zero, so that a rate over it is right from the first scrape."""
    for secret in secrets:
        RENEWALS.labels(secret)


def kept(ends: Mapping[str, datetime], renewed: Sequence[str]) -> None:
    """A pass over certificates in Secrets has ended well."""
    for secret, not_after in ends.items():
        MANAGED.labels(secret).set(not_after.timestamp())
    for secret in renewed:
        RENEWALS.labels(secret).inc()
