"""Metrics of the ResourceClaimTemplates that are made from definitions."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

ACTIONS = ("create", "replace", "delete")
WRITTEN = Counter("claim_templates_total", "ResourceClaimTemplates of definitions, by what was done", ("action",))
FOREIGN = Gauge(
    "claim_templates_foreign", "ResourceClaimTemplates that have the name of a definition and are not made from it"
)


def create_series() -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for action in ACTIONS:
        WRITTEN.labels(action)
