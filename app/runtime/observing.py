"""What is reported of each review: one log line, and the metrics."""

from __future__ import annotations

import asyncio
import time
import traceback

import msgspec

from app.admission.endpoint import Outcome
from app.admission.review import Request
from app.logs import LEVELS, Clock, LineWriter
from app.metrics import EVENT_LOOP_LAG, AdmissionMetrics, decision_word
from app.wire import encode_json

_SHOWN = 253
"""Characters; no name of Kubernetes is longer."""


class _Metadata(msgspec.Struct, rename="camel"):
    generate_name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode_named = msgspec.json.Decoder(_Named).decode


class _Line(msgspec.Struct, omit_defaults=True):
    """The log line of one review, in the order in which it reads best."""

    time: str
    level: str
    msg: str
    webhook: str
    decision: str
    reason: str
    duration_ms: float
    patch_ops: int | msgspec.UnsetType = msgspec.UNSET
    uid: str | msgspec.UnsetType = msgspec.UNSET
    operation: str | msgspec.UnsetType = msgspec.UNSET
    kind: str | msgspec.UnsetType = msgspec.UNSET
    namespace: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET
    dry_run: bool | msgspec.UnsetType = msgspec.UNSET
    message: str | msgspec.UnsetType = msgspec.UNSET
    error: str | msgspec.UnsetType = msgspec.UNSET
    traceback: list[str] | msgspec.UnsetType = msgspec.UNSET


class ReviewObserver:
    """The `Observer` of the endpoints: counts every review and writes its line. `flush` before the process ends."""

    def __init__(self, webhooks: tuple[str, ...], *, level: str = "info") -> None:
        self._metrics = AdmissionMetrics(webhooks)
        self._writer = LineWriter()
        self._clock = Clock()
        # Allowed reviews are "info", errors of ours "error", the rest in between.
        self._levels = LEVELS[LEVELS.index(level) :]

    def started(self, webhook: str) -> None:
        self._metrics.started(webhook)

    def finished(self, outcome: Outcome) -> None:
        self._metrics.finished(outcome)
        word = decision_word(outcome)
        level = _level(word, outcome)
        if level not in self._levels:
            return
        decision, request = outcome.decision, outcome.request
        line = _Line(
            self._clock(), level, "review", outcome.webhook, word, decision.reason, round(outcome.seconds * 1000, 3)
        )
        if request is not None:
            line.patch_ops = len(decision.operations)
            line.uid = request.uid[:_SHOWN]
            line.operation = request.operation
            line.kind = request.kind.kind[:_SHOWN]
            line.namespace = request.namespace[:_SHOWN]
            line.name = (request.name or _generate_name(request))[:_SHOWN]
            line.dry_run = bool(request.dry_run)
        if word != "allowed":
            line.message = decision.message[:512]
        if level == "error" and outcome.error is not None:
            line.error, line.traceback = _fault(outcome.error)
        self._writer.write(encode_json(line), urgent=word != "allowed")

    def flush(self) -> None:
        self._writer.flush()


def _level(word: str, outcome: Outcome) -> str:
    if word != "error":
        return "info"
    return "error" if outcome.decision.reason == "InternalError" else "warning"


def _generate_name(request: Request) -> str:
    """The beginning of the name that the API server has yet to make."""
    try:
        return _decode_named(request.object).metadata.generate_name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _fault(error: BaseException) -> tuple[str, list[str]]:
    """What an unexpected error is, and where it came from. Its text is left out: it may quote the object."""
    frames = traceback.extract_tb(error.__traceback__)
    return type(error).__name__, [f"{f.filename}:{f.lineno} {f.name}" for f in frames[-12:]]


async def measure_lag(*, interval: float = 0.1) -> None:
    """Keep the gauge of event-loop lag: the worst lateness of a second's worth of wake-ups."""
    while True:
        worst = 0.0
        for _ in range(10):
            due = time.monotonic() + interval
            await asyncio.sleep(interval)
            worst = max(worst, time.monotonic() - due)
        EVENT_LOOP_LAG.set(worst)
