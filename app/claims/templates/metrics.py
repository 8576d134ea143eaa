"""Metrics of the ResourceClaimTemplates that are made from definitions."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable

from prometheus_client import Counter, Gauge

ACTIONS = ("create", "replace", "delete")
REASONS = ("foreign", "refused")
WRITTEN = Counter("claim_templates_total", "ResourceClaimTemplates of definitions, by what was done", ("action",))
SKIPPED = Gauge(
    "claim_templates_skipped",
    "ResourceClaimTemplates that are used and not made, by reason; foreign: another one has the name of the "
    "definition; refused: the API server does not take it",
    ("reason",),
)


def create_series() -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for action in ACTIONS:
        WRITTEN.labels(action)
    skipped(())


def skipped(reasons: Iterable[str]) -> None:
    """Of each that is not made, the reason."""
    counted = Counts(reasons)
    for reason in REASONS:
        SKIPPED.labels(reason).set(counted[reason])
