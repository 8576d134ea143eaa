"""One admission path over HTTP: bounds the request, runs the chain within a deadline, answers and reports.

Raw ASGI: a framework's request object costs more than the decision. A decision, allowed or denied, is HTTP 200; a
request that is not a review is 4xx; what cannot be decided (a transient fault, a deadline, a bug) is 500, so that
failurePolicy decides (docs/adr/0001-denied-or-failed.md). Every answer is an AdmissionReview that echoes apiVersion
and, where it could be read, the uid.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from starlette.types import Receive, Scope, Send

from app.admission.body import Body, Deadlines
from app.admission.chain import Chain, Reviewed
from app.admission.decision import Decision, encode, identify
from app.admission.heads import Headers, check_headers
from app.admission.memo import Memo
from app.admission.review import Request, Review, decode
from app.errors import BadReview, Overloaded, Transient
from app.pace import Pace
from app.serving.memory import SMALL

BODY_LIMIT = 7 * 1024 * 1024
"""Bytes. An object is at most 3 MiB in a request; an update carries it twice, and JSON escapes make it grow."""

DEADLINE = 8.0
"""Seconds for one decision; the API server waits 10 unless the webhook configuration says otherwise."""

_CANCELED = Decision(allowed=False, reason="Canceled", message="the server ended before there was an answer", code=500)
"""What is reported where the server ends and waits no longer: there is no answer, but still a line."""
JSON_TYPE = (b"content-type", b"application/json")
VALUES = 512 * 1024
"""Of JSON in one body, counted by the signs that begin or part them: decoded, three bytes may take 250."""
_VALUE_BYTES = 50
"""What such a sign is counted for in a review that waits."""
_MOST_DECODED = 16 * 1024 * 1024


class Answer(NamedTuple):
    """What one body is answered with; without a `request` where none could be read.

    `uid` stands only where there is no request to take it from.
    """

    status: int
    payload: bytes
    decision: Decision
    request: Request | None = None
    error: BaseException | None = None
    uid: str = ""


class Waiting(NamedTuple):
    """A review whose decision has to wait, for an object that no cache has; `answer` is awaited once."""

    content: bytes
    request: Request
    answer: Coroutine[Any, Any, Answer]


class Outcome(msgspec.Struct, frozen=True):
    """One answered review, as log and metrics see it; `request` is None where none could be read.

    `uid` stands only where there is no request to take it from; `headers` are those of the HTTP request.
    """

    webhook: str
    status: int
    decision: Decision
    seconds: float
    request: Request | None = None
    error: BaseException | None = None
    headers: Headers = ()
    uid: str = ""


in_flight: dict[str, int] = {}
"""The reviews that are being decided in this process, by webhook; the metrics read it."""


@dataclass(slots=True)
class ReviewEndpoint:
    """The ASGI application behind one path.

    `finished` is called for every review, after its answer was sent. `draining()` makes each answer ask the client to
    close. `deadline` is in seconds, `body_limit` in bytes. With a `memo` a decision is made once for Pods alike. Its
    callers are `proven` API servers or may be anybody.
    """

    name: str
    chain: Chain
    _: KW_ONLY
    finished: Callable[[Outcome], None]
    deadline: float = DEADLINE
    body_limit: int = BODY_LIMIT
    draining: Callable[[], bool] = lambda: False
    proven: bool = False
    memo: Memo | None = None
    pace: Pace = field(default_factory=Pace, init=False)
    _deadlines: Deadlines = field(default_factory=Deadlines, init=False)

    def __post_init__(self) -> None:
        in_flight.setdefault(self.name, 0)

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, *, since: float = 0.0, waiting: Waiting | None = None
    ) -> None:
        """Answer one request; only a vanished client leaves it without an answer.

        It began at `since`, by `time.perf_counter`, if not now. `waiting` is what `decide` said of its body already.
        """
        now = time.perf_counter()
        since = since or now
        in_flight[self.name] += 1
        body: Body = scope.get("body") or Body()
        answer = Answer(500, b"", _CANCELED)
        if waiting is not None:
            body.chunks, body.complete = [waiting.content], True
        try:
            try:
                limit = _deadline_of(scope["query_string"], self.deadline) - (now - since)
                with self._deadlines.limit(limit):
                    decided = waiting or await self._decide_unread(scope, receive, body)
                    if isinstance(decided, Waiting):
                        answer = answer._replace(request=decided.request)
                        _hold_decoded(decided, body)
                        decided = await decided.answer
                    answer = decided
            except Exception as error:  # noqa: BLE001  the wall of the HTTP route: whatever it is, the client gets an answer
                answer = _failure(error, b"".join(body.chunks), answer.request)
            await self._respond(send, answer, close=not body.complete)
        finally:
            in_flight[self.name] -= 1
            self.report(answer, since=since, headers=scope["headers"])
            # Its error knows this frame, which knows the connection: together a cycle, with all buffers.
            del answer

    async def _decide_unread(self, scope: Scope, receive: Receive, body: Body) -> Answer | Waiting:
        # Read even where the headers are wrong: the uid is in the body, and a client that writes all of it
        # before it reads would find the connection reset instead of the answer.
        content = await body.read(receive, limit=self.body_limit, length=_length_of(scope["headers"]))
        check_headers(scope["method"], scope["headers"])
        if len(content) <= SMALL:  # as ordinary reviews are
            return self.decide(content)
        return await self.pace.in_slices(lambda: self.decide(content, self.pace))

    def decide(self, content: bytes, pace: Pace | None = None) -> Answer | Waiting:
        """The answer to a whole body. What goes wrong is an answer too, with the status and the error.

        With a `pace` what is left to do after it had to wait is done in slices too.
        """
        request = None
        try:
            if len(content) > SMALL:
                _check_values(content)
            review = decode(content)
            request = review.request
            # In slices the caches may change before the end: what is decided from both states must not be kept.
            memo = self.memo if pace is None else None
            if self.proven:
                request.prove()
            question = None if memo is None else memo.asked(request)
            if memo is not None and question is not None:
                kept = memo.find(question)
                if kept is not None:
                    return _answer(review, kept)
            reviewed = self.chain.review(request, pace)
            # Most reviews are decided from the caches, without waiting for anything.
            if isinstance(reviewed, tuple):
                if memo is not None and question is not None:
                    memo.offer(question, reviewed)
                return _answer(review, reviewed.decision)
        except Exception as error:  # noqa: BLE001  as above
            return _failure(error, content, request)
        return Waiting(content, request, _answer_later(review, reviewed))

    def lose(self, content: bytes, error: Exception, *, since: float, headers: Headers) -> None:
        """Report a review of which no more than this will come."""
        self.report(_failure(error, content, None), since=since, headers=headers)

    def report(self, answer: Answer, *, since: float, headers: Headers) -> None:
        """Have an answer that was sent counted and logged; the request began at `since`."""
        self.finished(
            Outcome(
                webhook=self.name,
                status=answer.status,
                decision=answer.decision,
                seconds=time.perf_counter() - since,
                request=answer.request,
                error=answer.error,
                headers=headers,
                uid=answer.uid,
            )
        )

    async def _respond(self, send: Send, answer: Answer, *, close: bool) -> None:
        status, payload = answer.status, answer.payload
        headers = [JSON_TYPE, (b"content-length", b"%d" % len(payload))]
        if isinstance(answer.error, Overloaded):
            # An API server asks again by itself after that, for as long as its timeout for the webhook lasts.
            headers.append((b"retry-after", b"%d" % (answer.error.delay or 1)))
        # A body that was not read to its end is still on its way in; the connection cannot carry another request.
        if close or self.draining():
            headers.append((b"connection", b"close"))
        if status == 405:
            headers.append((b"allow", b"POST"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": payload})


def _answer(review: Review, decision: Decision) -> Answer:
    payload = encode(decision, api_version=review.api_version, uid=review.request.uid)
    return Answer(200, payload, decision, review.request)


async def _answer_later(review: Review, reviewed: Awaitable[Reviewed]) -> Answer:
    return _answer(review, (await reviewed).decision)


def _failure(error: Exception, content: bytes, request: Request | None) -> Answer:
    """The answer to a body of which this may be the beginning only."""
    status, decision = _failed(error)
    api_version, uid = identify(content)
    payload = encode(decision, api_version=api_version, uid=uid)
    return Answer(status, payload, decision, request, error=error, uid=uid)


def _failed(error: Exception) -> tuple[int, Decision]:
    """The HTTP status and the answer for what is not a decision."""
    match error:
        case Overloaded():
            text = f"berth could not decide: {error}; try again"
            return 429, Decision(allowed=False, reason="TooManyRequests", message=text, code=429)
        case BadReview():
            return error.status, Decision(allowed=False, reason="BadReview", message=str(error), code=error.status)
        case TimeoutError():
            reason, message = "DeadlineExceeded", "berth could not decide within the deadline; try again"
        case Transient():
            reason, message = "Unavailable", f"berth could not decide: {error}; try again"
        case _:
            # The text of an unexpected error may carry pieces of the object: it goes to the log, not to the user.
            reason, message = "InternalError", "berth failed to decide because of an internal error; see its log"
    # What comes from elsewhere may hold lone surrogates, which have no form in UTF-8.
    message = message.encode(errors="replace").decode()
    return 500, Decision(allowed=False, reason=reason, message=message, code=500)


def values_in(content: bytes) -> int:
    """At least so many values of JSON as the document has, but for those that are one deep in another."""
    return content.count(b",") + content.count(b"[") + content.count(b"{")


def _check_values(content: bytes) -> None:
    """Raise BadReview (413) for a body that would be far larger when it is decoded."""
    if values_in(content) > VALUES:
        raise BadReview(f"body: want at most {VALUES} values of JSON", status=413)


def _hold_decoded(waiting: Waiting, body: Body) -> None:
    """Count what is kept of a review while it waits. Raises Overloaded where there is no room for it.

    It is counted for no more than one client may hold: what is alone always finds room.
    """
    if not body.take(min(values_in(waiting.content) * _VALUE_BYTES, _MOST_DECODED, body.most)):
        waiting.answer.close()
        raise Overloaded("too many reviews wait")


def _length_of(headers: Headers) -> int:
    """The length of the body as the head says it; 0 where it does not."""
    for name, value in headers:
        if name == b"content-length":
            return int(value)  # the parser takes nothing but digits
    return 0


@lru_cache(maxsize=64)
def _deadline_of(query: bytes, default: float) -> float:
    """The deadline in seconds: the API server says in `?timeout=` how long it waits, and wants the answer sooner."""
    for pair in query.split(b"&"):
        if pair.startswith(b"timeout=") and pair.endswith(b"s"):
            try:
                seconds = float(pair[8:-1])
            except ValueError:
                return default
            # A tenth is kept for the way back; not a number, zero or less says nothing about patience.
            return min(default, seconds * 0.9) if seconds > 0 else default
    return default
