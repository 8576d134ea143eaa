"""Metrics of admission reviews."""

from __future__ import annotations

from collections import defaultdict

from prometheus_client import Counter, Gauge

from app.admission.endpoint import Outcome, in_flight
from app.admission.memo import RESULTS, WEBHOOK, memos
from app.metrics import BatchHistogram, published

OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
DECISIONS = ("allowed", "denied", "error", "probe")
INJECTED_KINDS = ("resource", "node-selector", "volume", "env", "annotation", "affinity")

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

ADMISSION_REQUESTS = Counter(
    "admission_requests_total",
    "Reviews answered, by webhook, operation and decision",
    ("webhook", "operation", "decision"),
)
ADMISSION_DURATION = BatchHistogram(
    "admission_duration_seconds", "Time from the first byte read to the answer sent", ("webhook",), buckets=_BUCKETS
)
ADMISSION_IN_FLIGHT = Gauge("admission_in_flight", "Reviews being decided", ("webhook",), multiprocess_mode="livesum")
ADMISSION_PATCH_OPS = BatchHistogram(
    "admission_patch_ops",
    "JSON Patch operations of an allowed review",
    ("webhook",),
    buckets=(0, 1, 2, 4, 8, 16, 32, 64),
)
ADMISSION_INJECTED = Counter("admission_injected_total", "What was injected into Pods, by kind", ("kind",))
ADMISSION_MEMO_LOOKUPS = Counter(
    "admission_memo_lookups_total",
    "Look-ups of an answer to a Pod alike, by result: hit, miss, or skipped while hits are rare",
    ("result",),
)
ADMISSION_MEMO_BYTES = Gauge(
    "admission_memo_bytes", "Bytes of answers that are kept for Pods alike", ("webhook",), multiprocess_mode="livesum"
)


def create_series(webhooks: tuple[str, ...]) -> None:
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
    for result in RESULTS:
        ADMISSION_MEMO_LOOKUPS.labels(result)


class Tally:
    """What was answered since the last `publish`, which raises the counters by all of it at once."""

    def __init__(self) -> None:
        self.reviews = 0
        self._requests: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)
        self._operations: defaultdict[str, list[float]] = defaultdict(list)
        self._injected: defaultdict[str, int] = defaultdict(int)

    def add(self, outcome: Outcome, word: str) -> None:
        """`word` is that of the decision."""
        name, request, decision = outcome.webhook, outcome.request, outcome.decision
        self.reviews += 1
        self._requests[name, request.operation if request is not None else "", word] += 1
        self._seconds[name].append(outcome.seconds)
        if decision.allowed:
            self._operations[name].append(len(decision.operations))
            for kind, amount in decision.injected.items():
                self._injected[kind] += amount

    def publish(self) -> None:
        for labels, count in self._requests.items():
            ADMISSION_REQUESTS.labels(*labels).inc(count)
        for name, seconds in self._seconds.items():
            ADMISSION_DURATION.labels(name).observe_all(seconds)
        for name, operations in self._operations.items():
            ADMISSION_PATCH_OPS.labels(name).observe_all(operations)
        for kind, amount in self._injected.items():
            ADMISSION_INJECTED.labels(kind).inc(amount)
        self.reviews = 0
        for counted in (self._requests, self._seconds, self._operations, self._injected):
            counted.clear()


@published
def _publish() -> None:
    for webhook, number in in_flight.items():
        ADMISSION_IN_FLIGHT.labels(webhook).set(number)
    for memo in memos:
        for result, count in memo.take_lookups().items():
            ADMISSION_MEMO_LOOKUPS.labels(result).inc(count)
    if memos:
        ADMISSION_MEMO_BYTES.labels(WEBHOOK).set(sum(memo.bytes for memo in memos))


def decision_word(outcome: Outcome) -> str:
    """allowed, denied, probe for what the doctor sends to be denied, or error where no decision was made."""
    if outcome.status != 200:
        return "error"
    if outcome.decision.allowed:
        return "allowed"
    return "probe" if outcome.request is not None and outcome.request.is_probe else "denied"
