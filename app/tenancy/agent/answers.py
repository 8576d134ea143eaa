"""What the gateway has said of each object, so that an object that has not changed is not sent again.

A refusal stands until the object changes. One that speaks of what is there now (FAILED_PRECONDITION: a Pod in the way,
a namespace that is missing; RESOURCE_EXHAUSTED: a quota) may soon be untrue, and no event says so: it stands for a
while only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from app.kube.backoff import Backoff
from app.kube.controller import Done, RequeueAfter, Result
from app.tenancy.agent.faults import GatewayRefused

Version = tuple[str, int]
_OF_NOW = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.RESOURCE_EXHAUSTED)


@dataclass(frozen=True, slots=True)
class Answer:
    """`refusal` is None for a yes; `due` is when it has to be asked for again, if ever."""

    version: Version
    refusal: GatewayRefused | None
    due: float | None


class Answers:
    """By the object's name. Pauses grow from `base` to `cap` seconds, with jitter, for each version of an object."""

    def __init__(self, *, base: float, cap: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._base = base
        self._cap = cap
        self._clock = clock
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
            due = self._clock() + self._pause(name, version)
        else:
            self._pauses.pop(name, None)
        self._answers[name] = Answer(version, refusal, due)

    def drop(self, name: str) -> None:
        """Nothing that was said of this object counts any more."""
        self._answers.pop(name, None)
        self._pauses.pop(name, None)

    def clear(self) -> None:
        """Ask again for everything; pauses go on growing."""
        self._answers.clear()

    def next(self, name: str) -> Result:
        """When the object has to be looked at again, as far as its answer says."""
        answer = self._answers.get(name)
        if answer is None or answer.due is None:
            return Done()
        return RequeueAfter(max(0.0, answer.due - self._clock()))

    def _pause(self, name: str, version: Version) -> float:
        known = self._pauses.get(name)
        if known is None or known[0] != version:
            known = self._pauses[name] = version, Backoff(base=self._base, cap=self._cap)
        return known[1].next()
