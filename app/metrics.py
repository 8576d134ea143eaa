"""Prometheus metrics: every name in one place, series that alerts need created at zero.

One process uses the default registry; with `--workers` each worker writes into files (PROMETHEUS_MULTIPROC_DIR, set
before this module is imported) and the parent adds them up (`app.runtime.workers`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from app.admission.endpoint import Outcome

OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
DECISIONS = ("allowed", "denied", "error")
INJECTED_KINDS = ("resource", "node-selector", "volume", "env", "annotation")
RESTART_REASONS = (
    *("eof", "idle", "expired", "transport", "unauthorized", "forbidden", "missing", "throttled"),
    *("server_error", "client_error", "internal"),
)

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

ADMISSION_REQUESTS = Counter(
    "admission_requests_total",
    "Reviews answered, by webhook, operation and decision",
    ("webhook", "operation", "decision"),
)
ADMISSION_DURATION = Histogram(
    "admission_duration_seconds", "Time from the first byte read to the answer sent", ("webhook",), buckets=_BUCKETS
)
ADMISSION_IN_FLIGHT = Gauge("admission_in_flight", "Reviews being decided", ("webhook",), multiprocess_mode="livesum")
ADMISSION_PATCH_OPS = Histogram(
    "admission_patch_ops",
    "JSON Patch operations of an allowed review",
    ("webhook",),
    buckets=(0, 1, 2, 4, 8, 16, 32, 64),
)
ADMISSION_INJECTED = Counter("admission_injected_total", "What was injected into Pods, by kind", ("kind",))
WATCH_RESTARTS = Counter("watch_restarts_total", "Watches that ended and were started again", ("kind", "reason"))
POISON_OBJECTS = Counter("watch_poison_objects_total", "Objects that could not be read and were skipped", ("kind",))
CACHE_OBJECTS = Gauge("cache_objects", "Objects in the cache", ("kind",), multiprocess_mode="livemax")
CACHE_AGE = Gauge(
    "cache_age_seconds", "Time since the API server was last heard of", ("kind",), multiprocess_mode="livemax"
)
CERT_NOT_AFTER = Gauge(
    "cert_not_after_seconds", "Unix time at which the served certificate expires", multiprocess_mode="livemin"
)
EVENT_LOOP_LAG = Gauge(
    "event_loop_lag_seconds",
    "How late the event loop woke up, the worst of the last second",
    multiprocess_mode="livemax",
)


def create_series(*, webhooks: tuple[str, ...], kinds: tuple[str, ...]) -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for webhook in webhooks:
        ADMISSION_DURATION.labels(webhook)
        ADMISSION_PATCH_OPS.labels(webhook)
        ADMISSION_IN_FLIGHT.labels(webhook).set(0)
        for operation in OPERATIONS:
            for decision in DECISIONS:
                ADMISSION_REQUESTS.labels(webhook, operation, decision)
        # What could not be read as a review has no operation.
        ADMISSION_REQUESTS.labels(webhook, "", "error")
    for injected in INJECTED_KINDS:
        ADMISSION_INJECTED.labels(injected)
    for kind in kinds:
        POISON_OBJECTS.labels(kind)
        CACHE_OBJECTS.labels(kind).set(0)
        for reason in RESTART_REASONS:
            WATCH_RESTARTS.labels(kind, reason)


class AdmissionMetrics:
    """Counts reviews, many at a time: adding ten to a counter costs no more than adding one."""

    def __init__(self, webhooks: tuple[str, ...]) -> None:
        self._in_flight = dict.fromkeys(webhooks, 0)
        self._published = dict.fromkeys(webhooks, 0)
        self._duration = {name: ADMISSION_DURATION.labels(name) for name in webhooks}
        self._patch_ops = {name: ADMISSION_PATCH_OPS.labels(name) for name in webhooks}

    def started(self, webhook: str) -> None:
        self._in_flight[webhook] += 1

    def finished(self, outcomes: Iterable[Outcome]) -> None:
        """Count what was answered, and publish how much is still in flight."""
        requests: dict[tuple[str, str, str], int] = {}
        injected: dict[str, int] = {}
        for outcome in outcomes:
            name = outcome.webhook
            self._in_flight[name] -= 1
            self._duration[name].observe(outcome.seconds)
            operation: str = outcome.request.operation if outcome.request is not None else ""
            labels = (name, operation, decision_word(outcome))
            requests[labels] = requests.get(labels, 0) + 1
            if outcome.plan is not None and outcome.decision.allowed:
                self._patch_ops[name].observe(len(outcome.plan.patch.operations))
                for kind, amount in outcome.plan.injected.items():
                    injected[kind] = injected.get(kind, 0) + amount
        for labels, count in requests.items():
            ADMISSION_REQUESTS.labels(*labels).inc(count)
        for kind, amount in injected.items():
            ADMISSION_INJECTED.labels(kind).inc(amount)
        for name, number in self._in_flight.items():
            # The difference, for a process may hold several webhooks of one name (the sandbox does).
            ADMISSION_IN_FLIGHT.labels(name).inc(number - self._published[name])
            self._published[name] = number


def decision_word(outcome: Outcome) -> str:
    """allowed, denied, or error where no decision was made."""
    if outcome.status != 200:
        return "error"
    return "allowed" if outcome.decision.allowed else "denied"


class WatchMetrics:
    """Told by the reflectors of `app.kube`."""

    def restart(self, kind: str, reason: str) -> None:
        WATCH_RESTARTS.labels(kind, reason).inc()

    def objects(self, kind: str, count: int) -> None:
        CACHE_OBJECTS.labels(kind).set(count)

    def poison(self, kind: str) -> None:
        POISON_OBJECTS.labels(kind).inc()


def refresh(*, last_contacts: Mapping[str, float], not_after: datetime | None) -> None:
    """Set the gauges that are ages and dates. `last_contacts` are monotonic seconds by kind."""
    now = time.monotonic()
    for kind, contact in last_contacts.items():
        CACHE_AGE.labels(kind).set(max(0.0, now - contact))
    if not_after is not None:
        CERT_NOT_AFTER.set(not_after.timestamp())


def exposition() -> tuple[bytes, str]:
    """The text exposition of this process and its content type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
