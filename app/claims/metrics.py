"""Metrics of claims: whose the network data of devices are, what matches nothing, and how writes end."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping
from typing import get_args

from prometheus_client import Counter, Gauge

from app.claims.publishing.entries import STATES
from app.claims.publishing.model import Reason
from app.kube.store import Key

DEVICES = Gauge(
    "claims_devices",
    "Devices of Pods with network data: published, deferred to another field manager, left to a driver that is "
    "self-publishing, or of a driver that is unlisted",
    ("state",),
)
UNMATCHED = Gauge("claims_unmatched", "Devices and claims without network data where a user should look", ("reason",))
WRITES = Counter(
    "claims_writes_total",
    "Writes of network data into claims, by how they ended; rewritten: another writer had removed what was applied",
    ("outcome",),
)

OUTCOMES = ("applied", "rewritten", "released", "conflict", "gone", "refused", "rejected", "failed")
_pods: dict[Key, tuple[Mapping[str, int], Mapping[str, int]]] = {}
"""What each Pod adds to the gauges."""


def create_series() -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for state in STATES:
        DEVICES.labels(state)
    for reason in get_args(Reason):
        UNMATCHED.labels(reason)
    for outcome in OUTCOMES:
        WRITES.labels(outcome)


def found(pod: Key, states: Mapping[str, int], unmatched: Mapping[str, int]) -> None:
    """What a Pod has now, in place of what it had."""
    before = _pods.pop(pod, ({}, {}))
    if states or unmatched:
        _pods[pod] = (states, unmatched)
    for gauge, old, new in ((DEVICES, before[0], states), (UNMATCHED, before[1], unmatched)):
        for label in {*old, *new}:
            if change := new.get(label, 0) - old.get(label, 0):
                gauge.labels(label).inc(change)


def forget(pod: Key) -> None:
    found(pod, {}, Counts())


def forget_all() -> None:
    """The term of leadership has ended: another replica reports."""
    for pod in tuple(_pods):
        forget(pod)
