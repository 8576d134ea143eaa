"""Writes the statuses of Workloads and rules: after the companions, few at a time, and only what has changed.

Two controllers of their own, so that a slow status keeps no companion waiting. While companions of a tenant wait for
their turn, each worker writes at most one of its statuses a second; no tenant has all workers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.events import Events, Regarding
from app.kube.queue import WorkQueue
from app.kube.readyevents import ReadyEvents
from app.kube.resources import Resource
from app.text import stamp
from app.wire import JSON
from app.workloads.controller.caches import Caches, StoredWorkload, status_digest
from app.workloads.controller.findings import REPLACING, Finding, Findings
from app.workloads.controller.statuses import rule_status, timed, workload_rules
from app.workloads.model import ADMIN_RULES, TENANT_RULES, WORKLOADS, ObjectKey, RuleKind, by_tenant

_FIRST_PAUSE = 60.0
_BUSY_PAUSE = 1.0
_LOOK = 0.05
_REPLACEMENT_PAUSE = 3.0
"""Seconds that a companion may be replaced in before the status of its workload says so."""
_GATHER = 0.1
"""Seconds between the first change of a rule's state and its status: more will follow."""
_DOUBT_PAUSE = 0.5
"""Seconds until the next look where a cache came into doubt meanwhile: a status says what is known, or stays."""
_THROTTLED_PAUSE = 5.0
"""Seconds at least until the status of a tenant's object is tried again, where its bytes were too many."""
_UNKNOWN = 16 * 1024
"""Bytes that an object counts for which cannot be used."""
_LAG = 10.0
"""Seconds for which the watch may not have shown yet what was written."""

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


class Sent(Generic[T]):
    """What was written and, maybe, not seen yet: a watch that lags causes no second write."""

    def __init__(self) -> None:
        self._sent: dict[ObjectKey, tuple[T, T, float]] = {}

    def note(self, key: ObjectKey, *, seen: T, written: T) -> None:
        """`written` is there now, while the watch shows `seen`."""
        self._sent[key] = (seen, written, time.monotonic() + _LAG)

    def latest(self, key: ObjectKey, seen: T) -> T:
        """What is there now, as far as is known, where the watch shows `seen`."""
        former, written, until = self._sent.get(key, (seen, seen, 0.0))
        if seen == former and time.monotonic() < until:
            return written
        self._sent.pop(key, None)
        return seen

    def forget(self, key: ObjectKey) -> None:
        self._sent.pop(key, None)

    def clear(self) -> None:
        """The API server that took our writes may have been replaced: nothing is known of them any more."""
        self._sent.clear()


class WorkloadStatuses:
    """Keeps `status.rules` of Workloads."""

    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        findings: Findings,
        quiet: QuietTime,
        *,
        workers: int,
    ) -> None:
        self._client = client
        self._caches = caches
        self._findings = findings
        self._quiet = quiet
        self._replacing: dict[ObjectKey, float] = {}
        self._sent: Sent[bytes] = Sent()
        caches.on_renewed(self._sent.clear)
        self.controller: Controller[ObjectKey] = Controller(
            "workload-status",
            self._reconcile,
            stores=caches.stores,
            workers=workers,
            resync=None,
            queue=WorkQueue(turn=by_tenant, each=max(1, workers - 1)),
        )

    async def _reconcile(self, key: ObjectKey) -> Result:
        await self._quiet.come(key[0])
        if self._caches.in_doubt:
            return RequeueAfter(_DOUBT_PAUSE)
        stored = self._caches.workloads.get(*key)
        if stored is None:
            self._replacing.pop(key, None)
            self._sent.forget(key)
            return Done()
        findings = self._findings.of_workload(key)
        if any(finding.reason == REPLACING for finding in findings.values()):
            passed = time.monotonic() - self._replacing.setdefault(key, time.monotonic())
            if passed < _REPLACEMENT_PAUSE:
                return RequeueAfter(_REPLACEMENT_PAUSE - passed)
        else:
            self._replacing.pop(key, None)
        rules = self._rules(key, stored, findings)
        digest = status_digest(rules)
        latest = self._sent.latest(key, stored.status)
        if digest != latest:
            # The API server stores all of the object again.
            size = len(stored.workload.document) if stored.workload is not None else _UNKNOWN
            if pause := self._caches.storing.pause(key[0], size):
                return RequeueAfter(max(pause, _THROTTLED_PAUSE))
            await _patch(self._client, WORKLOADS, key, {"rules": rules})
            self._sent.note(key, seen=stored.status, written=digest)
        # Check again until the watch confirms the write: another client may have restored the former status.
        return RequeueAfter(_LAG) if digest != stored.status else Done()

    def _rules(self, key: ObjectKey, stored: StoredWorkload, findings: Mapping[ObjectKey, Finding]) -> JSON:
        companions = list(self._caches.observed(key).values())
        matching: set[tuple[RuleKind, ObjectKey]] = {
            (rule.kind, rule.key) for rule in self._caches.matcher.rules_of(key)
        }
        known = dict(findings)
        for companion in companions:
            rule = self._caches.stored_rule(companion.rule)
            if rule is None:
                continue
            if rule.rule is None or stored.workload is None:
                matching.add((rule.kind, companion.rule))
                known[companion.rule] = rule.finding if rule.rule is None else stored.finding
            elif companion.rule in self._caches.warming:
                matching.add((rule.kind, companion.rule))  # as it was, until it is known better
        return workload_rules(matching, companions, known)


class RuleStatuses:
    """Keeps the status of rules, and tells of its changes by `events`.

    Each is written at most once in `interval` seconds, however many workloads the rule matches.
    """

    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        findings: Findings,
        quiet: QuietTime,
        *,
        interval: float,
        events: Events | None = None,
    ) -> None:
        self._client = client
        self._caches = caches
        self._findings = findings
        self._quiet = quiet
        self._interval = interval
        self._due: dict[ObjectKey, float] = {}
        self._written: dict[ObjectKey, float] = {}
        self._sent: Sent[JSON] = Sent()
        caches.on_renewed(self._renewed)
        self._events = ReadyEvents(events)
        self.controller: Controller[ObjectKey] = Controller(
            "rule-status",
            self._reconcile,
            stores=caches.stores,
            workers=2,
            resync=None,
            queue=WorkQueue(turn=by_tenant, each=1),
        )

    def changed(self, rule: ObjectKey) -> None:
        """The state of a rule may have changed; cheap, however often it is called."""
        if rule not in self._due:
            now = time.monotonic()
            self._due[rule] = max(now + _GATHER, self._written.get(rule, 0.0) + self._interval)
            self.controller.enqueue(rule)

    def _renewed(self) -> None:
        self._sent.clear()
        for rule in self._caches.rule_keys():
            self.changed(rule)

    async def _reconcile(self, key: ObjectKey) -> Result:
        wait = self._due.get(key, 0.0) - time.monotonic()
        if wait > 0:
            return RequeueAfter(wait)
        await self._quiet.come(key[0])
        if self._caches.in_doubt:
            return RequeueAfter(_DOUBT_PAUSE)
        # From here on every change asks for another look.
        self._due.pop(key, None)
        stored = self._caches.stored_rule(key)
        if stored is None:
            self._written.pop(key, None)
            self._sent.forget(key)
            return Done()
        if key in self._caches.warming:
            return Done()  # we are told once it is known whom it matches
        status = rule_status(
            stored.kind,
            generation=stored.generation,
            matched=len(self._caches.matcher.workloads_of(key)),
            created=self._caches.created[key],
            broken=stored.problems,
            findings=self._findings.of_rule(key).values(),
        )
        now = stamp()
        latest = self._sent.latest(key, stored.status)
        complete = timed(status, latest, now=now)
        size = len(stored.rule.template) if stored.rule is not None else _UNKNOWN
        if complete is not None and (pause := self._caches.storing.pause(key[0], size)):
            return RequeueAfter(max(pause, _THROTTLED_PAUSE))
        if complete is not None:
            self._written[key] = time.monotonic()
            resource = TENANT_RULES if stored.kind == "tenant" else ADMIN_RULES
            written = await _patch(self._client, resource, key, complete)
            self._sent.note(key, seen=stored.status, written=complete)
            if written is not None:
                regarding = Regarding(resource.api_version, resource.kind, key[1], key[0], written["metadata"]["uid"])
                self._events.changed(regarding, before=latest, after=complete)
        return Done()


async def _patch(client: KubeClient, resource: Resource, key: ObjectKey, status: JSON) -> JSON | None:
    """The object as it is then; None where it is gone."""
    namespace, name = key
    try:
        return await client.patch(
            resource, name, {"status": status}, patch_type="merge", namespace=namespace, subresource="status"
        )
    except ApiError as error:
        if not error.not_found:
            raise
        return None
