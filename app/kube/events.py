"""Kubernetes Events: what happened to an object, told where its owner looks (`kubectl describe`).

Owns the queue between those who record and the API server. Recording never waits and never fails; memory is bounded;
what cannot be written is dropped and counted. It knows nothing of why something is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from app.errors import ApiError
from app.kube.backoff import Backoff
from app.kube.client import KubeClient
from app.kube.eventwriting import (
    WORD_LIMIT,
    EventType,
    EventWriter,
    Occurrences,
    Regarding,
    Told,
    event_name,
)
from app.kube.metrics import EVENT_OUTCOMES, EVENTS
from app.kube.rate import Rate
from app.text import MESSAGE, cut, stamp

__all__ = ["EventLimits", "EventRecorder", "EventType", "Events", "Regarding"]

log = structlog.get_logger(__name__)

_PATIENCE = 600.0
"""Seconds for which one that cannot be written is tried again."""
_MUTE = 600.0
"""Seconds without another attempt after the API server has refused to let the role write Events."""
_NAMES = 4096
"""Objects, and namespaces, whose budgets are remembered."""


class Events(Protocol):
    """Where Events are recorded."""

    def record(self, regarding: Regarding, event: EventType, *, reason: str, message: str) -> None:
        """Tell it; `reason` is one CamelCase word. Returns at once and never raises."""


@dataclass(frozen=True, slots=True)
class EventLimits:
    """`burst` Events of an object at once, then one every `seconds`, as client-go has it; at most `waiting` wait.

    A namespace has limits too, so that what goes on in one leaves room for the others.
    """

    burst: int = 25
    seconds: float = 300.0
    namespace_burst: int = 200
    namespace_seconds: float = 1.0
    waiting: int = 1000


class EventRecorder:
    """`run` writes until cancelled what `record` was told; `flush` waits for it, for so long as one can wait.

    `client()` may give None for as long as there is no connection. `role` and `instance` say who tells.
    Belongs to one event loop.
    """

    def __init__(
        self,
        client: Callable[[], KubeClient | None],
        *,
        role: str,
        instance: str,
        limits: EventLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = limits or EventLimits()
        self._client = client
        self._writer = EventWriter(component=f"berth-{role}", instance=instance, clock=clock)
        self._outcomes = {outcome: EVENTS.labels(role, outcome) for outcome in EVENT_OUTCOMES}
        self._clock = clock
        self._limit = limits.waiting
        self._objects: Rate[Regarding] = Rate(
            burst=limits.burst, per_second=1 / limits.seconds, names=_NAMES, clock=clock
        )
        self._namespaces: Rate[str] = Rate(
            burst=limits.namespace_burst, per_second=1 / limits.namespace_seconds, names=_NAMES, clock=clock
        )
        self._waiting: dict[Told, Occurrences] = {}
        self._backoff = Backoff(base=0.5, cap=30.0)
        self._wake, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._muted_until: float | None = None

    def record(self, regarding: Regarding, event: EventType, *, reason: str, message: str) -> None:
        """See `Events`."""
        told = Told(regarding, event, reason[:WORD_LIMIT], cut(message, MESSAGE))
        now = stamp()
        waiting = self._waiting.get(told)
        if waiting is not None:
            waiting.count += 1
            waiting.last = now
        elif self._granted(regarding):
            self._waiting[told] = Occurrences(event_name(regarding.name), self._clock(), now, now)
            self._idle.clear()
            self._wake.set()
        else:
            self._outcomes["dropped"].inc()

    async def run(self) -> None:
        """Writes one after the other; an API server that fails is given growing pauses.

        What failed goes to the end of the line, so that one namespace's trouble does not keep the others' waiting.
        """
        while True:
            await self._wake.wait()
            told = next(iter(self._waiting))
            happened = self._waiting.pop(told)
            pause = await self._once(told, happened)
            if pause is not None:
                self._put_back(told, happened)
                self._give_up_old()
                await asyncio.sleep(pause)
            if not self._waiting:
                self._wake.clear()
                self._idle.set()

    async def flush(self, seconds: float) -> None:
        """Returns when everything is written or dropped, or after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            log.info("events were not written in time", waiting=len(self._waiting))

    def _granted(self, regarding: Regarding) -> bool:
        if len(self._waiting) >= self._limit or self._muted():
            return False
        return not self._objects.take(regarding) and not self._namespaces.take(regarding.namespace)

    async def _once(self, told: Told, happened: Occurrences) -> float | None:
        """Try to write it; the pause in seconds where it is to be tried again, None where it is done with."""
        client = self._client()
        if client is None:
            return self._backoff.next()
        try:
            new = await self._writer.write(client, told, happened)
        except ApiError as error:
            return self._failed(error)
        except Exception:  # the wall of a background task: no Event is worth the end of what it tells of
            log.exception("event failed", reason=told.reason)
            self._outcomes["failed"].inc()
            return None
        self._backoff.reset()
        self._outcomes["recorded" if new else "aggregated"].inc()
        return None

    def _failed(self, error: ApiError) -> float | None:
        if error.status in (0, 401, 408, 429) or error.status >= 500:
            return self._backoff.next(at_least=error.delay)
        if error.status == 403 and " cannot " in str(error):
            # Not a namespace that is full or at its end: the role lacks the permission.
            self._mute(error)
        else:
            log.info("event rejected", error=str(error))
        self._outcomes["failed"].inc()
        return None

    def _muted(self) -> bool:
        return self._muted_until is not None and self._clock() < self._muted_until

    def _mute(self, error: ApiError) -> None:
        """Pause all Events after a refusal, logged once: the role may lack the permission on purpose."""
        if self._muted_until is None:
            log.info("no events: the role may not write them (create, patch)", error=str(error))
        self._muted_until = self._clock() + _MUTE
        for _ in self._waiting:
            self._outcomes["dropped"].inc()
        self._waiting.clear()

    def _put_back(self, told: Told, happened: Occurrences) -> None:
        """Last in the line, with what has come meanwhile."""
        again = self._waiting.pop(told, None)
        if again is not None:
            happened.count += again.count
            happened.last = again.last
        self._waiting[told] = happened

    def _give_up_old(self) -> None:
        """All at once: to ask for each of them once more would be a storm on a server that fails."""
        now = self._clock()
        for told in [told for told, happened in self._waiting.items() if now - happened.at >= _PATIENCE]:
            del self._waiting[told]
            self._outcomes["failed"].inc()
