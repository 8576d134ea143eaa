"""Metrics of the tenants' controllers: whose agents the gateway accepts."""

from __future__ import annotations

from prometheus_client import Gauge

CONNECTED = Gauge(
    "tenants_connected",
    "1 where the gateway accepts the tenant's agent, by the reason of Connected; none for a suspended tenant",
    ("tenant", "reason"),
)
_reasons: dict[str, str] = {}
"""The reason of each tenant that has a series."""


def connected(tenant: str, reason: str, *, up: bool) -> None:
    if _reasons.get(tenant) not in (None, reason):
        forget(tenant)
    _reasons[tenant] = reason
    CONNECTED.labels(tenant, reason).set(up)


def forget(tenant: str) -> None:
    if (reason := _reasons.pop(tenant, None)) is not None:
        CONNECTED.remove(tenant, reason)


def forget_all() -> None:
    """The term of leadership has ended: another replica reports."""
    for tenant in tuple(_reasons):
        forget(tenant)
