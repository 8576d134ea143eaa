"""When the certificates end that `berth certificates` keeps in Secrets, and how often it wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from prometheus_client import Counter, Gauge

MANAGED = Gauge("cert_managed_not_after_seconds", "Unix time at which the certificate in a Secret expires", ("secret",))
RENEWALS = Counter("cert_renewals_total", "Certificates written into a Secret, the first included", ("secret",))


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
