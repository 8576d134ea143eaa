"""What is reported of each review: one log line, the metrics, and an Event where a Pod is denied."""

from __future__ import annotations

import asyncio
import time
import traceback
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from app import logs
from app.admission.endpoint import Outcome
from app.admission.metrics import count_reviews, decision_word
from app.kube.events import EventRecorder, Regarding
from app.kube.names import check_dns_subdomain
from app.metrics import published
from app.tracing.context import of_headers
from app.wire import encode_json

if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans

_SHOWN = 253
"""Characters; no name of Kubernetes is longer."""


class ReviewLog:
    """Counts every review and writes its line.

    Both happen a moment later and for many reviews together, which costs each of them less than one by one, and the
    client has its answer by then. What is not allowed is reported at once. A process that is killed without warning
    loses at most the last `SECONDS`; one that stops calls `flush`. `denied` is called once for each denial.
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
        self._clock = logs.Clock()
        # Allowed reviews are "info", errors of ours "error", the rest in between.
        self._levels = logs.LEVELS[logs.LEVELS.index(level) :]
        self._denied, self._spans = denied, spans
        self._limit = self.LIMIT if spans is None else self.SPANS_LIMIT
        self._finished: list[tuple[float, Outcome]] = []
        self._timer: asyncio.TimerHandle | None = None
        _open.add(self)

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
                    line |= {"trace_id": trace.trace_id, "span_id": trace.span_id}
                lines.append(encode_json(line))
        if lines:
            logs.write_lines(lines)


_open: weakref.WeakSet[ReviewLog] = weakref.WeakSet()


@published
def _publish() -> None:
    """Count what was answered before the metrics are read."""
    for log in _open:
        log.flush()


def _line(at: str, level: str, word: str, outcome: Outcome) -> dict[str, object]:
    """The line of one review, in the order in which it reads best."""
    decision, request = outcome.decision, outcome.request
    line: dict[str, object] = {
        "time": at,
        "level": level,
        "msg": "review",
        "webhook": outcome.webhook,
        "decision": word,
        "reason": decision.reason,
        "duration_ms": round(outcome.seconds * 1000, 3),
    }
    if request is not None:
        line["patch_ops"] = len(decision.operations)
        line["uid"] = request.uid[:_SHOWN]
        line["operation"] = request.operation
        line["kind"] = request.kind.kind[:_SHOWN]
        line["namespace"] = request.namespace[:_SHOWN]
        name, generate_name = request.names
        line["generate_name" if generate_name else "name"] = (generate_name or name)[:_SHOWN]
        line["dry_run"] = bool(request.dry_run)
    elif outcome.uid:
        line["uid"] = outcome.uid[:_SHOWN]
    if word != "allowed":
        line["message"] = decision.message[:512]
    if level == "error" and outcome.error is not None:
        line |= _fault(outcome.error)
    return line


def _level(word: str, outcome: Outcome) -> str:
    if word != "error":
        return "info"
    return "error" if outcome.decision.reason == "InternalError" else "warning"


def _fault(error: BaseException) -> dict[str, object]:
    """What an unexpected error is, and where it came from. Its text is left out: it may quote the object."""
    frames = traceback.extract_tb(error.__traceback__)[-12:]
    return {"error": type(error).__name__, "traceback": [f"{f.filename}:{f.lineno} {f.name}" for f in frames]}


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


_decode_owners = msgspec.json.Decoder(list[_Owner] | None).decode


class Denials:
    """Records an Event on the owner of a Pod that was denied: the author of a Deployment sees no answer.

    A dry run leaves no trace.
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
        owner = next((one for one in owners if one.controller), owners[0] if owners else None)
        if owner is None or not _is_sound(owner):
            return
        regarding = Regarding(owner.api_version, owner.kind, owner.name, request.namespace, owner.uid)
        decision = outcome.decision
        self._events.record(regarding, "Warning", reason=decision.reason, message=decision.message)


def _is_sound(owner: _Owner) -> bool:
    """Whether there can be such an object: nothing has checked yet what a Pod says of its owners."""
    try:
        check_dns_subdomain(owner.name)
    except ValueError:
        return False
    return all(0 < len(text) <= _SHOWN for text in (owner.api_version, owner.kind, owner.uid))
