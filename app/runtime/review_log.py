"""What is reported of each review: one log line, the metrics, and an Event where a Pod is denied or surprises."""

from __future__ import annotations

import asyncio
import time
import traceback
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from app import logs
from app.admission.endpoint import Outcome
from app.admission.metrics import Tally, decision_word
from app.admission.pods import SURPRISING
from app.kube.events import EventRecorder, Regarding
from app.kube.names import check_dns_subdomain
from app.metrics import published
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.tracing.context import TraceContext, of_headers
from app.wire import encode_json

if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans

_SHOWN = 253
"""Characters; no name of Kubernetes is longer."""


class ReviewLog:
    """Counts every review and writes its line.

    Nothing of a review is kept but its line and what is counted: bodies that waited here would take the place of the
    next ones in the caches of the processor. The lines of many reviews are written at once, and their counters raised
    at once, which costs each of them less than one by one. A review that is not allowed is reported at once. A process
    that is killed without warning loses at most the last `SECONDS`; one that stops calls `flush`. `told` is called once
    for each denial, and for each Pod that is left alone for a reason of `SURPRISING`.
    """

    SECONDS = 0.1
    LIMIT = 128
    """Reviews; more at a time would be felt as a pause of the event loop."""

    def __init__(
        self,
        *,
        level: str = "info",
        told: Callable[[Outcome], None] | None = None,
        spans: Spans | None = None,
    ) -> None:
        self._clock = logs.Clock()
        # Allowed reviews are "info", errors of ours "error", the rest in between.
        self._levels = logs.LEVELS[logs.LEVELS.index(level) :]
        self._told, self._spans = told, spans
        self._tally, self._lines = Tally(), list[bytes]()
        self._timer: asyncio.TimerHandle | None = None
        _open.add(self)

    def finished(self, outcome: Outcome) -> None:
        self._note(outcome, time.time())
        if not outcome.decision.allowed or self._tally.reviews >= self.LIMIT:
            self.flush()
            if outcome.status == 200 and not outcome.decision.allowed and self._told is not None:
                self._told(outcome)
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.SECONDS, self.flush)
        if outcome.decision.reason in SURPRISING and outcome.decision.allowed and self._told is not None:
            self._told(outcome)

    def flush(self) -> None:
        """Report what is waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tally.publish()
        lines, self._lines = self._lines, []
        if lines:
            logs.write_lines(lines)

    def _note(self, outcome: Outcome, at: float) -> None:
        word = decision_word(outcome)
        self._tally.add(outcome, word)
        trace = self._spans.reviewed(outcome, word, at) if self._spans is not None else None
        level = _level(word, outcome)
        if level in self._levels:
            self._lines.append(encode_json(_line(self._clock(at), level, word, outcome, trace)))


_open: weakref.WeakSet[ReviewLog] = weakref.WeakSet()


@published
def _publish() -> None:
    """Count what was answered before the metrics are read."""
    for log in _open:
        log.flush()


class _Line(msgspec.Struct, kw_only=True):
    """The line of one review, in the order in which it reads best."""

    time: str
    level: str
    msg: str = "review"
    webhook: str
    decision: str
    reason: str
    duration_ms: float
    patch_ops: int | UnsetType = UNSET
    uid: str | UnsetType = UNSET
    operation: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    generate_name: str | UnsetType = UNSET
    dry_run: bool | UnsetType = UNSET
    message: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    traceback: list[str] | UnsetType = UNSET
    trace_id: str | UnsetType = UNSET
    span_id: str | UnsetType = UNSET


def _line(at: str, level: str, word: str, outcome: Outcome, trace: TraceContext | None) -> _Line:
    decision, request = outcome.decision, outcome.request
    line = _Line(
        time=at,
        level=level,
        webhook=outcome.webhook,
        decision=word,
        reason=decision.reason,
        duration_ms=round(outcome.seconds * 1000, 3),
    )
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
        line.error, line.traceback = type(outcome.error).__name__, _frames(outcome.error)
    trace = trace or of_headers(outcome.headers)
    if trace is not None:
        line.trace_id, line.span_id = trace.trace_id, trace.span_id
    return line


def _level(word: str, outcome: Outcome) -> str:
    if word != "error":
        return "info"
    return "error" if outcome.decision.reason == "InternalError" else "warning"


def _frames(error: BaseException) -> list[str]:
    """Where an unexpected error came from. Its text is left out: it may quote the object."""
    return [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)[-12:]]


_SELECTS = frozenset({NETWORKS, DEFAULT_NETWORK})


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


_decode_owners = msgspec.json.Decoder(list[_Owner] | None).decode


class OwnerEvents:
    """Records an Event on the owner of a Pod that was denied: the author of a Deployment sees no answer.

    So of a Pod that asks for networks and gets none. A dry run leaves no trace.
    """

    def __init__(self, events: EventRecorder) -> None:
        self._events = events

    def __call__(self, outcome: Outcome) -> None:
        request = outcome.request
        if request is None or request.dry_run or not request.namespace or request.operation != "CREATE":
            return
        if request.kind.kind != "Pod" or request.kind.group or request.sub_resource:
            return
        try:
            owners = _decode_owners(request.metadata.owner_references) or []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        owner = next((owner for owner in owners if owner.controller), owners[0] if owners else None)
        if owner is None or not _is_sound(owner):
            return
        decision = outcome.decision
        # The decision is allowed, so the Pod can be read.
        if decision.allowed and _SELECTS.isdisjoint(request.pod.metadata.annotations):
            return
        regarding = Regarding(owner.api_version, owner.kind, owner.name, request.namespace, owner.uid)
        self._events.record(regarding, "Warning", reason=decision.reason, message=decision.message)


def _is_sound(owner: _Owner) -> bool:
    """Whether there can be such an object: nothing has checked yet what a Pod says of its owners."""
    try:
        check_dns_subdomain(owner.name)
    except ValueError:
        return False
    return all(0 < len(text) <= _SHOWN for text in (owner.api_version, owner.kind, owner.uid))
