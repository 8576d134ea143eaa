"""What is reported of each review: one log line, and the metrics."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from app.admission.endpoint import Outcome
from app.admission.metrics import count_reviews, decision_word
from app.logs import LEVELS, Clock, write_lines
from app.metrics import EVENT_LOOP_LAG
from app.tracing.context import of_headers
from app.wire import encode_json

if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans

_SHOWN = 253
"""Characters; no name of Kubernetes is longer."""


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
    generate_name: str | msgspec.UnsetType = msgspec.UNSET
    dry_run: bool | msgspec.UnsetType = msgspec.UNSET
    message: str | msgspec.UnsetType = msgspec.UNSET
    error: str | msgspec.UnsetType = msgspec.UNSET
    traceback: list[str] | msgspec.UnsetType = msgspec.UNSET
    trace_id: str | msgspec.UnsetType = msgspec.UNSET
    span_id: str | msgspec.UnsetType = msgspec.UNSET


class ReviewLog:
    """Counts every review and writes its line.

    Both happen a moment later and for many reviews together, which costs each of them less than one by one, and the
    client has its answer by then. What is not allowed is reported at once. A process that is killed without warning
    loses at most the last `SECONDS`; one that stops calls `flush`. `denied` is told of each denial, once.
    """

    SECONDS = 0.01
    LIMIT = 128
    """Reviews; more at a time would be felt as a pause of the event loop."""
    SPANS_LIMIT = 16
    """The same where each of them gets a span."""

    def __init__(
        self,
        *,
        level: str = "info",
        denied: Callable[[Outcome], None] | None = None,
        spans: Spans | None = None,
    ) -> None:
        self._clock = Clock()
        # Allowed reviews are "info", errors of ours "error", the rest in between.
        self._levels = LEVELS[LEVELS.index(level) :]
        self._denied, self._spans = denied, spans
        self._limit = self.LIMIT if spans is None else self.SPANS_LIMIT
        self._finished: list[tuple[float, Outcome]] = []
        self._timer: asyncio.TimerHandle | None = None

    def finished(self, outcome: Outcome) -> None:
        finished = self._finished
        finished.append((time.time(), outcome))
        if not outcome.decision.allowed or len(finished) >= self._limit:
            self.flush()
            if outcome.status == 200 and not outcome.decision.allowed and self._denied is not None:
                self._denied(outcome)
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.SECONDS, self.flush)

    def flush(self) -> None:
        """Report what is waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        finished, self._finished = self._finished, []
        count_reviews(outcome for _, outcome in finished)
        lines = []
        for at, outcome in finished:
            word = decision_word(outcome)
            level = _level(word, outcome)
            trace = self._spans.reviewed(outcome, word, at) if self._spans is not None else None
            if level in self._levels:
                line = _line(self._clock(at), level, word, outcome)
                if trace is None:
                    trace = of_headers(outcome.headers)
                if trace is not None:
                    line.trace_id, line.span_id = trace.trace_id, trace.span_id
                lines.append(encode_json(line))
        if lines:
            write_lines(lines)


def _line(at: str, level: str, word: str, outcome: Outcome) -> _Line:
    decision, request = outcome.decision, outcome.request
    line = _Line(at, level, "review", outcome.webhook, word, decision.reason, round(outcome.seconds * 1000, 3))
    if request is not None:
        line.patch_ops = len(decision.operations)
        line.uid = request.uid[:_SHOWN]
        line.operation = request.operation
        line.kind = request.kind.kind[:_SHOWN]
        line.namespace = request.namespace[:_SHOWN]
        name, generate_name = request.names
        if generate_name:
            line.generate_name = generate_name[:_SHOWN]
        else:
            line.name = name[:_SHOWN]
        line.dry_run = bool(request.dry_run)
    elif outcome.uid:
        line.uid = outcome.uid[:_SHOWN]
    if word != "allowed":
        line.message = decision.message[:512]
    if level == "error" and outcome.error is not None:
        line.error, line.traceback = _fault(outcome.error)
    return line


def _level(word: str, outcome: Outcome) -> str:
    if word != "error":
        return "info"
    return "error" if outcome.decision.reason == "InternalError" else "warning"


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
