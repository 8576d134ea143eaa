"""Metrics of Services on secondary networks."""

from __future__ import annotations

from collections import Counter as Count
from typing import get_args

from prometheus_client import Counter, Gauge

from app.kube.store import Key
from app.services.addresses import Reason

SERVICES = Gauge(
    "claims_services",
    "Services with an annotation for a network: served, or with a problem that an Event tells",
    ("state",),
)
ENDPOINTS = Gauge(
    "claims_service_endpoints", "Endpoints of Services on other networks, by whether they are ready", ("state",)
)
SKIPPED = Gauge(
    "claims_service_pods_skipped", "Pods that such Services select and that are no endpoints, by reason", ("reason",)
)
WRITES = Counter("claims_endpoint_slice_writes_total", "EndpointSlices created, changed and deleted", ("verb",))

_STATES = {SERVICES: ("served", "problem"), ENDPOINTS: ("ready", "unready"), SKIPPED: get_args(Reason)}
_totals: dict[Gauge, Count[str]] = {gauge: Count() for gauge in _STATES}
_of: dict[Key, dict[Gauge, Count[str]]] = {}
"""What each Service has in the totals."""


def create_series() -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for verb in ("create", "patch", "delete"):
        WRITES.labels(verb)
    for gauge, states in _STATES.items():
        for state in states:
            gauge.labels(state).set(_totals[gauge][state])


def served(service: Key, *, ready: int, unready: int, skipped: Count[str], problem: bool) -> None:
    """What a Service has now, with the Pods that it selects and that are no endpoints, by reason.

    `problem` is whether an Event says that something of it is wrong.
    """
    endpoints = Count({"ready": ready, "unready": unready})
    _set(service, {SERVICES: Count({"problem" if problem else "served": 1}), ENDPOINTS: endpoints, SKIPPED: skipped})


def has_problem(service: Key) -> None:
    """It cannot be served; what it has is not counted."""
    _set(service, {SERVICES: Count({"problem": 1})})


def forget(service: Key) -> None:
    """It asks for no network any more."""
    _set(service, {})


def forget_all() -> None:
    """The term of leadership has ended: another replica reports."""
    for service in tuple(_of):
        forget(service)


def _set(service: Key, counts: dict[Gauge, Count[str]]) -> None:
    before = _of.pop(service, {})
    if counts:
        _of[service] = counts
    for gauge, totals in _totals.items():
        old, new = before.get(gauge, Count[str]()), counts.get(gauge, Count[str]())
        for state in old.keys() | new.keys():
            totals[state] += new[state] - old[state]
            gauge.labels(state).set(totals[state])
