"""Kubernetes Events: what happened to an object, shown where its owner looks (`kubectl describe`).

Recording never waits and never fails. Memory is bounded; what cannot be written is dropped and counted.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import structlog

from app.errors import ApiError
from app.kube import metrics
from app.kube.client import KubeClient
from app.kube.conditions import condition
from app.kube.rate import Rate
from app.kube.resources import EVENTS, Resource
from app.kube.retry import Backoff, if_there
from app.kube.store import Key
from app.text import abridged, stamp
from app.wire import JSON

log = structlog.get_logger(__name__)

EventType = Literal["Normal", "Warning"]

_PROBLEMS = 4096
"""Objects whose problems are remembered."""
_WELL = "nothing is wrong any more"
_Problem = tuple[str, int]
"""Reason and generation: the same problem of the same spec gives one Event, also where its message changes."""
WINDOW = 600.0
"""Seconds after its last occurrence in which an equal event raises the count of the Event."""
_PATIENCE = 600.0
"""Seconds for which one that cannot be written is tried again."""
_MUTE = 600.0
"""Seconds without another attempt after the API server has refused to let the role write Events."""
_NAMES = 4096
"""Objects, and namespaces, whose budgets are remembered."""
_WRITTEN = 1024
"""Events that are remembered to raise their counts."""
_WORD_LIMIT = 128
"""Characters of a reason, and of who reports."""
_NAME_LIMIT = 253
_NO_NAMESPACE = "default"
"""Where the API server wants the Events of objects that are in no namespace."""
_BURST, _PER_SECOND = 25, 1 / 300
"""The budget of an object, as client-go has it."""


class Regarding(NamedTuple):
    """The object that an Event is about; `namespace` is "" for one that is in none."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    @classmethod
    def of(cls, resource: Resource, key: Key, uid: str) -> Self:
        """The object of a resource with this (namespace, name)."""
        namespace, name = key
        return cls(resource.api_version, resource.kind, name, namespace, uid)

    @property
    def reference(self) -> dict[str, str]:
        names = ("apiVersion", "kind", "name", "namespace", "uid")
        return {name: value for name, value in zip(names, self, strict=True) if value}


class _Event(NamedTuple):
    """What makes two occurrences the same."""

    regarding: Regarding
    event: EventType
    reason: str
    message: str


@dataclass(slots=True)
class _Occurrences:
    """What has happened since the last write, or was written; `first` and `last` are times as the API has them.

    `name` is made with it, so that an answer that was lost causes no second Event. `at` is monotonic.
    """

    name: str
    at: float
    first: str
    last: str
    count: int = 1


class EventRecorder:
    """`run` writes until cancelled what was recorded; `flush` waits until all of it is written.

    `client()` may give None for as long as there is no connection. `instance` and `component` say who reports; without
    a component that is `berth-ROLE`. A namespace has a budget, as an object has: `namespace_burst` at once, then one a
    second, so that what goes on in one leaves room for the others. At most `waiting` wait. Belongs to one event loop.
    """

    def __init__(
        self,
        client: Callable[[], KubeClient | None],
        *,
        role: str,
        instance: str,
        component: str = "",
        namespace_burst: int = 200,
        waiting: int = 1000,
        clock: Callable[[], float] = time.monotonic,
        backoff: Backoff | None = None,
    ) -> None:
        self._client, self._clock, self._limit = client, clock, waiting
        self._component, self._instance = component or f"berth-{role}", instance[:_WORD_LIMIT]
        self._outcomes = {outcome: metrics.EVENTS.labels(role, outcome) for outcome in metrics.EVENT_OUTCOMES}
        self._objects: Rate[Regarding] = Rate(burst=_BURST, per_second=_PER_SECOND, names=_NAMES, clock=clock)
        self._namespaces: Rate[str] = Rate(burst=namespace_burst, per_second=1.0, names=_NAMES, clock=clock)
        self._waiting: dict[_Event, _Occurrences] = {}
        self._written: dict[_Event, _Occurrences] = {}
        self._backoff = backoff or Backoff(base=0.5, cap=30.0)
        self._wake, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._muted_until = 0.0

    def record(self, regarding: Regarding, event: EventType, *, reason: str, message: str) -> None:
        """Have it written; `reason` is one CamelCase word. Returns at once and never raises."""
        found = _Event(regarding, event, reason[:_WORD_LIMIT], abridged(message))
        now = stamp()
        waiting = self._waiting.get(found)
        if waiting is not None:
            waiting.count += 1
            waiting.last = now
        elif self._granted(regarding):
            suffix = f".{secrets.token_hex(8)}"
            name = regarding.name[: _NAME_LIMIT - len(suffix)].rstrip("-.") + suffix
            self._waiting[found] = _Occurrences(name, self._clock(), now, now)
            self._idle.clear()
            self._wake.set()
        else:
            self._outcomes["dropped"].inc()

    async def run(self) -> None:
        """Writes one after the other, with growing pauses for an API server that fails.

        What failed goes to the end of the line, so that a fault in one namespace does not hold up the others.
        """
        while True:
            await self._wake.wait()
            event = next(iter(self._waiting))
            happened = self._waiting.pop(event)
            pause = await self._once(event, happened)
            if pause is not None:
                again = self._waiting.pop(event, None)
                if again is not None:
                    happened.count += again.count
                    happened.last = again.last
                self._waiting[event] = happened
                # All at once: to ask for each of them once more would be a storm on a server that fails.
                oldest = self._clock() - _PATIENCE
                for old in [event for event, happened in self._waiting.items() if happened.at <= oldest]:
                    del self._waiting[old]
                    self._outcomes["failed"].inc()
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
        if self._clock() < self._muted_until or len(self._waiting) >= self._limit:
            return False
        return not self._objects.take(regarding) and not self._namespaces.take(regarding.namespace)

    async def _once(self, event: _Event, happened: _Occurrences) -> float | None:
        """Try to write it; the pause in seconds where it is to be tried again, None where it is done with."""
        client = self._client()
        if client is None:
            return self._backoff.next()
        try:
            outcome = await self._write(client, event, happened)
            self._backoff.reset()
        except ApiError as error:
            if error.status in (0, 401, 408, 429) or error.status >= 500:
                return self._backoff.next(at_least=error.delay)
            outcome = "failed"
            if error.status == 403 and " cannot " in str(error):
                # Not a namespace that is full or at its end: the role lacks the permission.
                self._mute(error)
            else:
                log.info("event rejected", error=str(error))
        except Exception:  # the wall of a background task: one bad Event must not end the writer
            log.exception("event failed", reason=event.reason)
            outcome = "failed"
        self._outcomes[outcome].inc()
        return None

    async def _write(self, client: KubeClient, event: _Event, happened: _Occurrences) -> str:
        """Raise the count of the Event that says the same already, or create one. Raises ApiError."""
        namespace = event.regarding.namespace or _NO_NAMESPACE
        known, outcome = self._written.get(event), "recorded"
        if known is not None and self._clock() - known.at < WINDOW:
            count = known.count + happened.count
            change = {"count": count, "lastTimestamp": happened.last}
            request = client.patch(EVENTS, known.name, change, patch_type="merge", namespace=namespace)
            if await if_there(request) is not None:  # an API server forgets Events
                happened.name, happened.count, outcome = known.name, count, "aggregated"
        if outcome == "recorded":
            await self._create(client, event, happened, namespace)
        happened.at = self._clock()
        self._written.pop(event, None)
        self._written[event] = happened
        if len(self._written) > _WRITTEN:
            del self._written[next(iter(self._written))]
        return outcome

    async def _create(self, client: KubeClient, event: _Event, happened: _Occurrences, namespace: str) -> None:
        body = EVENTS.body(
            {"name": happened.name, "namespace": namespace},
            involvedObject=event.regarding.reference,
            type=event.event,
            reason=event.reason,
            message=event.message,
            firstTimestamp=happened.first,
            lastTimestamp=happened.last,
            count=happened.count,
            source={"component": self._component},
            reportingComponent=self._component,
            reportingInstance=self._instance,
        )
        try:
            await client.create(EVENTS, body, namespace=namespace)
        except ApiError as error:
            if not error.conflict:  # the answer to an earlier try was lost
                raise

    def _mute(self, error: ApiError) -> None:
        """Pause all Events after a refusal, logged once: the role may lack the permission on purpose."""
        if not self._muted_until:
            log.info("no events: the role may not write them (create, patch)", error=str(error))
        self._muted_until = self._clock() + _MUTE
        self._outcomes["dropped"].inc(len(self._waiting))
        self._waiting.clear()


class ReadyEvents:
    """Call `changed` for each status that was written. Without `events` it does nothing.

    Reads `result` ("error" where a user has to act) and the condition Ready, as Berth's own kinds have them. The reason
    that is `warned` of, by the type of a condition, is a problem too, also if the result is none. A state that is not
    known yet gives no Event.
    """

    def __init__(self, events: EventRecorder | None, *, warned: Mapping[str, str] | None = None) -> None:
        self._events, self._warned = events, warned or {}
        self._problems: dict[Regarding, _Problem] = {}

    def changed(self, regarding: Regarding, *, before: JSON, after: JSON) -> None:
        """The status was `before` and is `after` now; a view of `before` that lags causes no second Event."""
        if self._events is None:
            return
        known = self._problems.pop(regarding, None) or self._problem(before)
        problem, ready = self._problem(after), condition(after, "Ready")
        message = str(ready.get("message") or "")
        if problem is None and ready.get("status") != "True":
            problem = known  # it is not known yet whether the problem is over
        elif problem is None and known is not None:
            reason = str(ready.get("reason") or "Ready")
            self._events.record(regarding, "Normal", reason=reason, message=message or _WELL)
        elif problem is not None and problem != known:
            said = str(after.get("message") or "")
            # Of a result that is no error, Ready says how many objects there are.
            message = message or said if after.get("result") == "error" else said or message
            self._events.record(regarding, "Warning", reason=problem[0], message=message)
        if problem is not None:
            self._problems[regarding] = problem
            if len(self._problems) > _PROBLEMS:
                del self._problems[next(iter(self._problems))]

    def _problem(self, status: JSON) -> _Problem | None:
        warned = self._warned.items()
        reason = next((word for kind, word in warned if condition(status, kind).get("reason") == word), None)
        if status.get("result") == "error":
            reason = condition(status, "Ready").get("reason") or "Error"
        if reason is None:
            return None
        generation = status.get("observedGeneration")
        return str(reason), generation if isinstance(generation, int) else 0
