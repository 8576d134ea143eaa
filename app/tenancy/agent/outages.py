"""The gateway's answers to calls, and since when and why a stream to it is not up, as objects that wait show it.

Calls that are not OK become errors, and what is remembered of them for each object. The texts are stable: thousands
of objects may show one, and each change is a write of every one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import grpc
import grpc.aio

from app.errors import EXCEEDED_QUOTA, Terminal, Transient
from app.kube.retry import Backoff
from app.text import rpc_fault, stamp

Version = tuple[str, int]
_MESSAGE_LIMIT = 8192
_REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
_OF_NOW = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.RESOURCE_EXHAUSTED)
"""Refusals for a state that may change without an event: a Pod in the way, a missing namespace, a quota."""
NOT_CONNECTED = "NotConnected"
"""The reason of the condition Ready of objects while the gateway does not accept the agent."""
OF_THE_LINK = (NOT_CONNECTED, "GatewayUnavailable", "PermissionDenied")
"""The reasons of errors that say nothing of the object: the gateway answers PERMISSION_DENIED to identities alone."""
_SINCE, _BECAUSE = "not connected since ", " because "
_LONGEST = 20
"""The longest pause between two refusals that are shown, in units of `patience`."""


class GatewayUnavailable(Transient):
    """No answer, or one that may be another soon (unavailable, deadline, rate limit, internal)."""

    reason = "GatewayUnavailable"


class GatewayRefused(Terminal):
    """The gateway said no; `reason` is its code as a CamelCase word for conditions."""

    def __init__(self, message: str, *, code: grpc.StatusCode) -> None:
        super().__init__(message)
        self.code = code
        self.reason = "".join(part.capitalize() for part in code.name.split("_"))
        self.not_found = code is grpc.StatusCode.NOT_FOUND


def fault(error: grpc.aio.AioRpcError) -> GatewayUnavailable | GatewayRefused:
    """The error of our tree for an answer that is not OK."""
    code, details = error.code(), rpc_fault(error.details() or "")[:_MESSAGE_LIMIT]
    # The rate of calls is exhausted for a moment; a quota until something is removed.
    if code in _REFUSALS or (code is grpc.StatusCode.RESOURCE_EXHAUSTED and EXCEEDED_QUOTA in details):
        return GatewayRefused(details or word(code), code=code)
    return GatewayUnavailable(f"gateway: {word(code)}: {details}" if details else f"gateway: {word(code)}")


def word(code: grpc.StatusCode) -> str:
    """The code as it stands in messages, logs and metrics: `unavailable`, `deadline_exceeded`."""
    return code.name.lower()


_ELSEWHERE = word(grpc.StatusCode.FAILED_PRECONDITION)
_NOT_ADMITTED = (_ELSEWHERE, word(grpc.StatusCode.PERMISSION_DENIED), word(grpc.StatusCode.UNAUTHENTICATED))


@dataclass(frozen=True, slots=True)
class Answer:
    """`refusal` is None for a yes; `due` is when it has to be asked for again, if ever."""

    version: Version
    refusal: GatewayRefused | None
    due: float | None


class Answers:
    """The answers by the object's name, so that an object that has not changed is not sent again.

    A refusal stands until the object changes, one of `_OF_NOW` only for a pause. Pauses grow from `base` to `cap`
    seconds, with jitter, for each version of an object.
    """

    def __init__(self, *, base: float, cap: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._base, self._cap, self._clock = base, cap, clock
        self._answers: dict[str, Answer] = {}
        self._pauses: dict[str, tuple[Version, Backoff]] = {}

    def get(self, name: str, version: Version) -> Answer | None:
        """The answer to this version, or None where the gateway is to be asked."""
        answer = self._answers.get(name)
        if answer is None or answer.version != version or (answer.due is not None and answer.due <= self._clock()):
            return None
        return answer

    def put(self, name: str, version: Version, refusal: GatewayRefused | None) -> None:
        due = None
        if refusal is not None and refusal.code in _OF_NOW:
            if name not in self._pauses or self._pauses[name][0] != version:
                self._pauses[name] = version, Backoff(base=self._base, cap=self._cap)
            due = self._clock() + self._pauses[name][1].next()
        else:
            self._pauses.pop(name, None)
        self._answers[name] = Answer(version, refusal, due)

    def drop(self, name: str) -> None:
        self._answers.pop(name, None)
        self._pauses.pop(name, None)

    def clear(self) -> None:
        """Ask again for everything; pauses go on growing."""
        self._answers.clear()

    def next(self, name: str) -> float | None:
        """In how many seconds the object is to be looked at again; None where its answer stands."""
        answer = self._answers.get(name)
        return None if answer is None or answer.due is None else max(0.0, answer.due - self._clock())


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a stream is not up. `code` is the gRPC code in words, "" where the agent itself cannot call."""

    code: str
    text: str

    @property
    def refused(self) -> bool:
        """Whether the gateway has answered, and refuses this agent."""
        return self.code in _NOT_ADMITTED

    @property
    def passing(self) -> bool:
        """Whether the gateway did not answer: the words for it may differ from one try to the next."""
        return self.code != "" and not self.refused

    @property
    def reason(self) -> str:
        if self.refused:
            return f"the gateway refuses the agent: {self.text}"
        if not self.code:
            return self.text
        return f"the gateway cannot be reached: {self.text if self.text == self.code else f'{self.code}: {self.text}'}"


UNKNOWN = Cause("", "")
"""Before the first answer."""


@dataclass(frozen=True, slots=True)
class Outage:
    """`since` is the time in RFC 3339, `began` the same on the monotonic clock.

    `changes` counts the refusals that took the place of another; the next one does so after `held`.
    """

    since: str
    began: float
    cause: Cause
    changes: int = 0
    held: float = 0.0

    @property
    def elsewhere(self) -> bool:
        """Whether the gateway refuses all calls from this cluster; that does not pass by itself."""
        return self.cause.code == _ELSEWHERE

    @property
    def message(self) -> str:
        return f"{_SINCE}{self.since}{_BECAUSE}{self.cause.reason}"

    def shown_by(self, message: str) -> bool:
        """Whether the message says the same, perhaps with the time of another agent."""
        return message.startswith(_SINCE) and message.endswith(f"{_BECAUSE}{self.cause.reason}")


class Outages:
    """Those of each stream. After `patience` seconds the words for a gateway that does not answer stay as they are.

    Replicas of a gateway may refuse for different reasons. Another refusal is shown at once, the next ones after pauses
    that begin with `patience` and double.
    """

    def __init__(self, *, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience, self._clock = patience, clock
        self._outages: dict[str, Outage] = {}

    def __getitem__(self, stream: str) -> Outage:
        return self._outages[stream]

    def note(self, stream: str, cause: Cause) -> bool:
        """The stream is not up; whether that is new, or has another cause than before."""
        outage = self._outages.get(stream)
        if outage is None:
            self._outages[stream] = Outage(stamp(), self._clock(), cause)
            return True
        if cause == outage.cause or (cause.passing and not self._replaceable(outage)):
            return False
        changed = replace(outage, cause=cause)
        if cause.refused and outage.cause.refused:
            if self._clock() < outage.held:
                return False
            pause = self._patience * min(2**outage.changes, _LONGEST)
            changed = replace(changed, changes=outage.changes + 1, held=self._clock() + pause)
        self._outages[stream] = changed
        return True

    def over(self, stream: str) -> None:
        self._outages.pop(stream, None)

    def _replaceable(self, outage: Outage) -> bool:
        """Whether another word for silence may take its place: a refusal says more, and what is shown stays."""
        if outage.cause.refused:
            return False
        return not outage.cause.passing or self._clock() - outage.began < self._patience
