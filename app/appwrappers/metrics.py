"""Metrics of AppWrappers: how many are in a phase, how long they stay there, how often they are reset.

`appwrapper_phase_total` has the name and the labels that AppWrapper v1.2 gives it, `namespace` too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from prometheus_client import Counter, Gauge, Histogram

from app.appwrappers.controller.stored import AppWrapper
from app.appwrappers.model import DELETING_RESOURCES, PHASES, RESETTING
from app.kube.conditions import changed_at, condition, is_true
from app.kube.store import Store
from app.metrics import published

RESET_CAUSES = (
    *("CreateFailed", "MissingComponent", "FailedComponent", "FoundFailedPods"),
    *("AutopilotNoExecute", "InsufficientPodsReady"),
)
_DELETING = ("Resetting", "Suspending", "Succeeded", "Failed", "Terminating")
_BUCKETS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400, 604_800)

ENTERED = Counter("appwrapper_phase_total", "AppWrappers that entered a phase", ("namespace", "phase"))
RESETS = Counter("appwrapper_resets_total", "Resets of AppWrappers, by their cause", ("cause",))
PRESENT = Gauge("appwrappers", "AppWrappers in a phase", ("phase",))
SPENT = Histogram(
    "appwrapper_phase_seconds",
    "Time that AppWrappers spent in a phase which began and ended while this process was the leader",
    ("phase",),
    buckets=_BUCKETS,
)
DELETION = Gauge(
    "appwrapper_longest_deletion_seconds",
    "How long the oldest deletion of objects has been under way, of AppWrappers in a phase",
    ("phase",),
)

_begun: dict[str, tuple[str, float]] = {}
"""Of each AppWrapper by UID: the last phase that this process put it into, and when on the monotonic clock."""
_stores: list[Store[AppWrapper]] = []


def create_series() -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for phase in PHASES:
        PRESENT.labels(phase)
        SPENT.labels(phase)
    for deleting in _DELETING:
        DELETION.labels(deleting)
    for cause in RESET_CAUSES:
        RESETS.labels(cause)


def entered(before: AppWrapper, after: AppWrapper) -> None:
    """An AppWrapper was put into another phase."""
    ENTERED.labels(after.key[0], after.phase).inc()
    if after.phase == "Resetting":
        RESETS.labels(condition(after.status, RESETTING).get("reason", "")).inc()
    phase, began = _begun.get(after.uid, ("", 0.0))
    if phase and phase == before.phase:
        SPENT.labels(phase).observe(time.monotonic() - began)
    _begun[after.uid] = (after.phase, time.monotonic())


@contextmanager
def kept(store: Store[AppWrapper]) -> Iterator[None]:
    """AppWrappers are counted while a cache of them is kept: a standby replica keeps none."""
    forget = store.subscribe(lambda _event, _key, old, new: _begun.pop(old.uid, None) if old and not new else None)
    _stores.append(store)
    try:
        yield
    finally:
        forget()
        _stores.remove(store)
        _begun.clear()
        _count([])


@published
def _publish() -> None:
    for store in _stores:
        _count(store.values())


def _count(wrappers: list[AppWrapper]) -> None:
    counts: dict[str, int] = dict.fromkeys(PHASES, 0)
    longest, now = dict.fromkeys(_DELETING, 0.0), datetime.now(UTC)
    for wrapper in wrappers:
        if wrapper.phase in counts:
            counts[wrapper.phase] += 1
        if wrapper.phase in longest and is_true(wrapper.status, DELETING_RESOURCES):
            took = (now - changed_at(wrapper.status, DELETING_RESOURCES, now=now)).total_seconds()
            longest[wrapper.phase] = max(longest[wrapper.phase], took)
    for phase, count in counts.items():
        PRESENT.labels(phase).set(count)
    for phase, seconds in longest.items():
        DELETION.labels(phase).set(seconds)
