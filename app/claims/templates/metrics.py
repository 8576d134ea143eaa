"""Metrics of the ResourceClaimTemplates that are made from definitions."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

ACTIONS = ("create", "replace", "delete")
WRITTEN = Counter("claim_templates_total", "ResourceClaimTemplates of definitions, by what was done", ("action",))
SKIPPED = Gauge(
    "claim_templates_skipped",
    "ResourceClaimTemplates that are used and not made, by reason; foreign: another one has the name of the definition",
    ("reason",),
)


def create_series() -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for action in ACTIONS:
        WRITTEN.labels(action)
    foreign(0)


def foreign(count: int) -> None:
    SKIPPED.labels("foreign").set(count)
