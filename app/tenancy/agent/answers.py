"""The gateway's answers to calls: errors for those that are not OK, and what is remembered of them for each object."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc
import grpc.aio

from app.errors import EXCEEDED_QUOTA, Terminal, Transient
from app.kube.retry import Backoff

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
    code, details = error.code(), (error.details() or "")[:_MESSAGE_LIMIT]
    # The rate of calls is exhausted for a moment; a quota until something is removed.
    if code in _REFUSALS or (code is grpc.StatusCode.RESOURCE_EXHAUSTED and EXCEEDED_QUOTA in details):
        return GatewayRefused(details or word(code), code=code)
    return GatewayUnavailable(f"gateway: {word(code)}: {details}" if details else f"gateway: {word(code)}")


def word(code: grpc.StatusCode) -> str:
    """The code as it stands in messages, logs and metrics: `unavailable`, `deadline_exceeded`."""
    return code.name.lower()


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
