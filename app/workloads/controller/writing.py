"""Writes the statuses of Workloads and rules: after the companions, few at a time, and only what has changed.

Two controllers of their own, so that a slow status keeps no companion waiting. While companions of a tenant wait for
their turn, each worker writes at most one of its statuses a second; no tenant has all workers.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import structlog

from app.errors import ApiError
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.events import ReadyEvents, Regarding
from app.kube.kit import Kit
from app.kube.own_writes import OwnWrites
from app.kube.resources import Resource
from app.metrics import HANDLING_FAULTS
from app.text import stamp
from app.wire import JSON
from app.workloads.controller.caches import LAG, WorkloadCaches
from app.workloads.controller.statuses import REPLACING, Finding, rule_status, timed, workload_rules
from app.workloads.controller.stored import StoredWorkload, status_digest
from app.workloads.model import ADMIN_RULES, TENANT_RULES, WARNED, WORKLOADS, ObjectKey, RuleKind

_GATHER = 0.1
"""Seconds between the first change of a rule's state and its status: more will follow."""
_QUIET, _LONGEST = 0.5, 10.0
"""Intervals without a change that a status waits for where only the number of those that run has changed, and intervals
after which it waits no longer."""
log = structlog.get_logger(__name__)

_FIRST_PAUSE = 60.0
_BUSY_PAUSE = 1.0
_LOOK = 0.05
_REPLACEMENT_PAUSE = 3.0
"""Seconds that a companion may be replaced in before the status of its workload says so."""
_DOUBT_PAUSE = 0.5
"""Seconds until the next look where a cache came into doubt meanwhile: a status says what is known, or stays."""
_THROTTLED_PAUSE = 5.0
"""Seconds at least until the status of a tenant's object is tried again, where its bytes were too many."""
_UNKNOWN = 16 * 1024
"""Bytes that an object counts for which cannot be used."""

T = TypeVar("T")


class QuietTime:
    """Waits until `waiting` says 0 for a namespace, or a second has passed; the first time much longer.

    What is known after a start is half of the truth until every workload has been looked at once.
    """

    def __init__(self, waiting: Callable[[str], int]) -> None:
        self._waiting = waiting
        self._known: set[str] = set()

    async def come(self, namespace: str) -> None:
        end = time.monotonic() + (_BUSY_PAUSE if namespace in self._known else _FIRST_PAUSE)
        while self._waiting(namespace) and time.monotonic() < end:  # noqa: ASYNC110 - a queue has no event for it
            await asyncio.sleep(_LOOK)
        self._known.add(namespace)


class _Statuses(ABC, Generic[T]):
    """What both writers share. A watch that lags causes no second write."""

    def __init__(self, name: str, kit: Kit, caches: WorkloadCaches, quiet: QuietTime, *, workers: int) -> None:
        self._client, self._caches, self._quiet = kit.client, caches, quiet
        self._sent = OwnWrites(self._seen, lifetime=LAG)
        self._caches.on_renewed(self._sent.clear)
        # The caches say which status may have to change; the resync of the companions reaches them too.
        self.controller: Controller[ObjectKey] = kit.reconcile(
            name, self._reconcile, keys=tuple, wakes={}, workers=workers
        )

    async def _reconcile(self, key: ObjectKey) -> Result:
        await self._quiet.come(key[0])
        return RequeueAfter(_DOUBT_PAUSE) if self._caches.in_doubt else await self._look(key)

    @abstractmethod
    def _seen(self, key: ObjectKey) -> T | None:
        """What the watch shows of a status."""

    @abstractmethod
    async def _look(self, key: ObjectKey) -> Result: ...

    def _pause(self, tenant: str, size: int) -> float:
        """Seconds until so many bytes may be written: the API server stores all of the object again. 0 for now."""
        pause = self._caches.storing.writes.take(tenant, size)
        return max(pause, _THROTTLED_PAUSE) if pause else 0.0

    async def _write(self, resource: Resource, key: ObjectKey, status: JSON, value: T) -> JSON | None:
        """Write the status, which `_seen` shows as `value` then. Returns the object; None where it is gone."""
        (namespace, name), before = key, self._seen(key)
        try:
            with self._sent.under_way(key):
                written = await self._client.patch(
                    resource, name, {"status": status}, patch_type="merge", namespace=namespace, subresource="status"
                )
        except ApiError as error:
            if not error.not_found:
                raise
            return None
        if self._seen(key) == before:
            self._sent.wrote(key, value)
        return written


class WorkloadStatuses(_Statuses[bytes]):
    def __init__(self, kit: Kit, caches: WorkloadCaches, quiet: QuietTime, *, workers: int) -> None:
        super().__init__("workload-status", kit, caches, quiet, workers=workers)
        self._replacing: dict[ObjectKey, float] = {}
        self._unconfirmed: set[ObjectKey] = set()
        """Those that are looked at again for no other reason than a write that the watch has yet to show."""

    def shown(self, key: ObjectKey, old: StoredWorkload, new: StoredWorkload) -> None:
        """The watch shows another status than before. What we have written ourselves needs no other look."""
        if not self._sent.shown(key, old.status, new.status):
            self.controller.enqueue(key)
        elif key in self._unconfirmed:
            self._unconfirmed.discard(key)
            self.controller.queue.forget(key)

    def _seen(self, key: ObjectKey) -> bytes | None:
        stored = self._caches.workloads.get(*key)
        return stored.status if stored else None

    async def _reconcile(self, key: ObjectKey) -> Result:
        self._unconfirmed.discard(key)  # if a doubt puts this look off, there is another reason for the next
        return await super()._reconcile(key)

    async def _look(self, key: ObjectKey) -> Result:
        stored = self._caches.workloads.get(*key)
        if stored is None:
            self._replacing.pop(key, None)
            self._sent.forget(key)
            return Done()
        findings = self._caches.findings.of_workload(key)
        if any(finding.reason == REPLACING for finding in findings.values()):
            passed = time.monotonic() - self._replacing.setdefault(key, time.monotonic())
            if passed < _REPLACEMENT_PAUSE:
                return RequeueAfter(_REPLACEMENT_PAUSE - passed)
        else:
            self._replacing.pop(key, None)
        rules = self._rules(key, stored, findings)
        digest = status_digest(rules)
        if digest != self._sent.get(key):
            size = len(stored.workload.document) if stored.workload is not None else _UNKNOWN
            if pause := self._pause(key[0], size):
                return RequeueAfter(pause)
            await self._write(WORKLOADS, key, {"rules": rules}, digest)
        seen = self._seen(key)
        if seen in (digest, None):
            return Done()
        if seen != stored.status:
            return RequeueAfter(0.0)  # another client wrote it meanwhile
        # Check again until the watch confirms the write: another client may have restored the former status.
        self._unconfirmed.add(key)
        return RequeueAfter(LAG)

    def _rules(self, key: ObjectKey, stored: StoredWorkload, findings: Mapping[ObjectKey, Finding]) -> JSON:
        companions = list(self._caches.observed(key).values())
        matching: set[tuple[RuleKind, ObjectKey]] = {
            (rule.kind, rule.key) for rule in self._caches.matcher.rules_of(key)
        }
        shown = dict(findings)
        for companion in companions:
            rule = self._caches.stored_rule(companion.rule)
            if rule is None:
                continue
            if rule.rule is None or stored.workload is None:
                matching.add((rule.kind, companion.rule))
                shown[companion.rule] = rule.finding if rule.rule is None else stored.finding
            elif companion.rule in self._caches.warming:
                matching.add((rule.kind, companion.rule))  # as it was, until it is known better
        return workload_rules(matching, companions, shown)


class RuleStatuses(_Statuses[JSON]):
    """Keeps the status of rules, and reports its changes by the Events of the kit.

    Each is written at most once in `interval` seconds, however many workloads the rule matches.
    """

    def __init__(
        self, kit: Kit, caches: WorkloadCaches, quiet: QuietTime, *, workers: int = 2, interval: float
    ) -> None:
        super().__init__("rule-status", kit, caches, quiet, workers=workers)
        self._pace = Pace(interval)
        self._events = ReadyEvents(kit.events, warned=WARNED)
        self._caches.on_renewed(self._renewed)

    def _seen(self, key: ObjectKey) -> JSON | None:
        stored = self._caches.stored_rule(key)
        return stored.status if stored else None

    def changed(self, rule: ObjectKey) -> None:
        """The state of a rule may have changed; cheap, however often it is called."""
        if self._pace.changed(rule):
            self.controller.enqueue(rule)

    def running_changed(self, rule: ObjectKey) -> None:
        """A companion runs now, or no longer; as cheap."""
        if self._pace.running_changed(rule):
            self.controller.enqueue(rule)

    def _renewed(self) -> None:
        for rule in (*self._caches.tenant_rules.keys(), *self._caches.admin_rules.keys()):
            self.changed(rule)

    async def _reconcile(self, key: ObjectKey) -> Result:
        wait = self._pace.wait(key)
        return RequeueAfter(wait) if wait > 0 else await super()._reconcile(key)

    async def _look(self, key: ObjectKey) -> Result:
        self._pace.begin(key)
        stored = self._caches.stored_rule(key)
        if stored is None:
            self._pace.forget(key)
            self._sent.forget(key)
            return Done()
        if key in self._caches.warming:
            return Done()  # `changed` is called once its matches are known
        key_failures = tuple(self._caches.key_failures(key))
        status = rule_status(
            stored.kind,
            generation=stored.generation,
            terms=stored.rule.terms if stored.rule is not None else (),
            matched=self._caches.matcher.count(key),
            standings=self._caches.standings(key),
            lacking=self._caches.lacking(key),
            removing=self._caches.removing(key),
            broken=(*stored.problems, *self._caches.failures(key)),
            findings=(*self._caches.findings.of_rule(key).values(), *key_failures),
        )
        latest = self._sent.get(key) or {}
        complete = timed(status, latest, now=stamp())
        if complete is None:
            return Done()
        if pause := self._pause(key[0], len(stored.rule.template) if stored.rule is not None else _UNKNOWN):
            return RequeueAfter(pause)
        self._pace.wrote(key)
        if key_failures:
            HANDLING_FAULTS.labels("rules").inc(len(key_failures))
            same = {"namespace": key[0], "name": key[1], "workloads": len(key_failures)}
            log.warning("workloads dropped from a rule", **same, problem=key_failures[0].message)
        resource = TENANT_RULES if stored.kind == "tenant" else ADMIN_RULES
        written = await self._write(resource, key, complete, complete)
        if written is not None:
            regarding = Regarding.of(resource, key, written["metadata"]["uid"])
            self._events.changed(regarding, before=latest, after=complete)
        return Done()


class Pace:
    """When the status of a rule is to be written: soon after a change, at most once in an interval, later in a wave.

    Thousands of companions may start one by one, and each changes how many run. Times are in seconds. `changed` and
    `running_changed` are cheap, however often they are called.
    """

    def __init__(self, interval: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval, self._clock = interval, clock
        self._due: dict[ObjectKey, float] = {}
        self._latest: dict[ObjectKey, float] = {}
        """Of the rules that wait for quiet, until when they do."""
        self._written: dict[ObjectKey, float] = {}

    def changed(self, rule: ObjectKey) -> bool:
        """The state has changed. True where the rule has to be looked at earlier than was known before."""
        if self._latest.pop(rule, None) is None and rule in self._due:
            return False
        self._due[rule] = max(self._clock() + _GATHER, self._next(rule))
        return True

    def running_changed(self, rule: ObjectKey) -> bool:
        """Only the number of companions that run has changed. The result is as that of `changed`."""
        now, new = self._clock(), rule not in self._due
        if new:
            self._latest[rule] = now + _LONGEST * self._interval
        if (latest := self._latest.get(rule)) is not None:
            self._due[rule] = min(max(now + _QUIET * self._interval, self._next(rule)), latest)
        return new

    def wait(self, rule: ObjectKey) -> float:
        """How long the status has to wait; 0 or less for now."""
        return self._due.get(rule, 0.0) - self._clock()

    def begin(self, rule: ObjectKey) -> None:
        """The state is looked at: from here on every change asks for another look."""
        self._due.pop(rule, None)
        self._latest.pop(rule, None)

    def wrote(self, rule: ObjectKey) -> None:
        self._written[rule] = self._clock()

    def forget(self, rule: ObjectKey) -> None:
        """The rule is gone."""
        self._written.pop(rule, None)

    def _next(self, rule: ObjectKey) -> float:
        return self._written.get(rule, -self._interval) + self._interval
