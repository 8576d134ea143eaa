"""Reconciles the companions of one workload, from the state and not from events.

A companion that exists and is as it should be costs no request, one that is missing costs one. Every write names the
uid that it means, and what is not ours is never adopted, changed or deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from app.errors import EXCEEDED_QUOTA, ApiError, Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.resources import PODS
from app.kube.turns import Turns
from app.wire import JSON
from app.workloads.companions.marks import Companion, companion_of, injected_mark, policy_of, size_of
from app.workloads.companions.plan import Planned, plan
from app.workloads.controller.caches import Caches
from app.workloads.controller.findings import (
    DENIED_PAUSE,
    REPLACING,
    SERVER_ERROR,
    Finding,
    Findings,
    pause_of,
    problem_of,
)
from app.workloads.controller.restarts import Restarts
from app.workloads.matching.facts import Facts
from app.workloads.model import INJECTED, RULE_NAME, ObjectKey, Policy, Problem, Waiting, Workload

log = structlog.get_logger(__name__)

_AT_ONCE = 16
"""Rules of a workload that are looked at before others may run: each takes some 10 µs."""
_PENDING_PAUSE = 30.0
"""Seconds; a workload is woken before, when others have a node."""
_REPLACING = Waiting(REPLACING, "the former companion is still ending")


class _ExpectedError(Transient):
    """A reason that is in the statuses already."""

    expected = True


class _RefusedError(_ExpectedError):
    """What keeps one companion from being made, without a word of the API server."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message, delay=DENIED_PAUSE)
        self.finding = finding


@dataclass(slots=True)
class _Run:
    """What one reconcile has found out so far."""

    workload: ObjectKey
    waited_before: bool
    findings: dict[ObjectKey, Finding] = field(default_factory=dict)
    desired: dict[ObjectKey, Planned] = field(default_factory=dict)
    failures: list[Transient] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    waits: set[Policy] = field(default_factory=set)
    full: dict[str, Problem] = field(default_factory=dict)

    def holds(self) -> set[ObjectKey]:
        """The companions that keep a place: an API server that failed may have made one that it did not confirm."""
        refused = {
            rule
            for rule, finding in self.findings.items()
            if isinstance(finding, Problem) and finding.reason != SERVER_ERROR
        }
        return {planned.key for planned in self.desired.values() if planned.rule not in refused}


class Reconciler:
    """Calls `settled` after each run, with the workload and its rules. Each request waits for one of the `turns`."""

    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        findings: Findings,
        *,
        turns: Turns,
        restarts: Restarts,
        settled: Callable[[ObjectKey, set[ObjectKey]], None],
    ) -> None:
        self._client = client
        self._caches = caches
        self._findings = findings
        self._turns = turns
        self._restarts = restarts
        self._settled = settled

    async def reconcile(self, key: ObjectKey) -> Result:
        """Raises Transient where something failed that is worth another try."""
        stored = self._caches.workloads.get(*key)
        run = _Run(key, waited_before=key in self._caches.storing.pending.waiters)
        if stored is not None and stored.workload is not None:
            await self._plan(stored.workload, run)
        observed = self._caches.observed(key)
        if stored is not None and stored.workload is None:
            # What was found of it before is no longer so; its companions stay as long as their rules do.
            rules = {one.rule for one in observed.values() if self._caches.stored_rule(one.rule) is not None}
            run.findings |= dict.fromkeys(rules, stored.finding)
        for companion in observed.values():
            if companion.key not in run.desired and not companion.ending and not self._stays(companion, stored, run):
                self._restarts.forget(companion.key)
                await self._attempt(self._delete(companion, "no longer wanted"), companion.rule, run)
        for planned in run.desired.values():
            await self._attempt(self._settle(planned, observed.get(planned.key), run), planned.rule, run)
        self._caches.places.settle(key, holds=run.holds(), waits=run.waits)
        former = set(self._findings.of_workload(key))
        self._findings.put(key, run.findings)
        rules = {planned.rule for planned in run.desired.values()} | run.findings.keys() | former
        self._settled(key, rules | {companion.rule for companion in observed.values()})
        return _verdict(run)

    async def _plan(self, workload: Workload, run: _Run) -> None:
        facts = Facts(workload.document)
        for number, rule in enumerate(self._caches.matcher.rules_of(workload.key), start=1):
            blueprint = self._caches.blueprint(rule)
            outcome = plan(blueprint, workload, facts)
            if number % _AT_ONCE == 0 or any(key.path is None for _, key in blueprint.injections):
                # A computed key may take a few milliseconds, and there may be hundreds of rules.
                await asyncio.sleep(0)
            if not isinstance(outcome, Planned):
                run.findings[rule.key] = outcome
            elif outcome.key in run.desired:
                run.findings[rule.key] = Problem("NameTaken", f"another rule's companion is named {outcome.name}")
            else:
                run.desired[outcome.key] = outcome

    def _stays(self, companion: Companion, stored: object | None, run: _Run) -> bool:
        """A mistake in a rule costs no running Pod its life; the end of the workload or of the rule does."""
        if stored is None:
            return False
        if companion.rule in self._caches.warming:
            return True  # whether the rule still matches is not known yet
        rule = self._caches.stored_rule(companion.rule)
        return isinstance(run.findings.get(companion.rule), Problem) or (rule is not None and rule.rule is None)

    async def _attempt(self, step: Awaitable[None], rule: ObjectKey, run: _Run) -> None:
        """One companion's failure must not keep the others waiting."""
        try:
            await step
        except _RefusedError as error:
            run.findings[rule] = error.finding
            run.failures.append(error)
        except ApiError as error:
            problem = problem_of(error)
            if problem is not None:
                run.findings[rule] = problem
            pause = pause_of(problem)
            run.failures.append(Transient(str(error), delay=max(pause or 0.0, error.delay or 0.0) or None))

    async def _settle(self, planned: Planned, companion: Companion | None, run: _Run) -> None:
        if companion is None:
            if self._has_place(planned, run):
                await self._create(planned, run)
        elif companion.ending:
            self._replacing(planned, run)
        elif (companion.spec_hash, companion.rule) != (planned.spec_hash, planned.rule):
            await self._replace(planned, companion, run)
        elif companion.lost:
            await self._replace_lost(planned, companion, run)
        elif companion.digest != planned.digest or not companion.intact:
            await self._inject(planned, companion)

    async def _replace(self, planned: Planned, companion: Companion, run: _Run) -> None:
        """The old one runs until its successor may be made."""
        storing = self._caches.storing
        if (obstacle := storing.replacement(companion, size_of(planned.manifest), weight=planned.weight)) is not None:
            raise _RefusedError(obstacle)
        try:
            await self._delete(companion, "made from another spec", charged=True)
        except ApiError:
            storing.failed(companion.key)
            raise
        self._replacing(planned, run)

    def _replacing(self, planned: Planned, run: _Run) -> None:
        """The successor keeps the place of the companion that is ending."""
        if self._has_place(planned, run):
            run.findings[planned.rule] = _REPLACING

    def _has_place(self, planned: Planned, run: _Run) -> bool:
        """A companion in the tenant's own namespace needs none: a ResourceQuota counts it."""
        tenant, places, policy = run.workload[0], self._caches.places, policy_of(planned.host)
        if planned.namespace == tenant or places.take(run.workload, planned.key, policy):
            return True
        run.waits.add(policy)
        shortage = places.shortage(tenant, policy, planned.namespace)
        run.findings[planned.rule] = Problem("QuotaExceeded", shortage, of_workload=True)
        return False

    async def _create(self, planned: Planned, run: _Run) -> None:
        tenant, storing = run.workload[0], self._caches.storing
        full = run.full.get(planned.namespace)
        obstacle = full or storing.obstacle(
            run.workload, planned.key, size_of(planned.manifest), host=planned.host, weight=planned.weight
        )
        if isinstance(obstacle, Waiting) and run.workload in storing.pending.waiters and not run.waited_before:
            # It mostly takes a moment: a status says so only where it lasts.
            run.again.append(_PENDING_PAUSE)
            return
        if obstacle is not None:
            raise _RefusedError(obstacle)
        try:
            async with self._turns.of(tenant):
                with self._caches.written.under_way(planned.key):
                    pod = await self._client.create(PODS, planned.manifest, namespace=planned.namespace)
        except ApiError as error:
            storing.failed(planned.key)
            if error.exceeded_quota:
                # It has no room for the others either; to ask for each would cost a request, again and again.
                text = str(error)
                run.full[planned.namespace] = Problem("QuotaExceeded", text[text.index(EXCEEDED_QUOTA) :])
            if error.reason != "AlreadyExists":
                raise
            await self._settle(planned, await self._present(planned, run, error), run)
            return
        companion = self._expect(pod, planned, run)
        if self._caches.written.get(planned.key) != companion:
            # It was changed or deleted before we had our answer.
            run.again.append(0.0)

    async def _present(self, planned: Planned, run: _Run, refusal: ApiError) -> Companion:
        """The companion that stands where we wanted to create it: the watch has yet to show it, if it is ours.

        Raises `refusal` where it is gone again: the next try will do.
        """
        known = self._caches.companions.get(*planned.key)
        if known is not None:
            if (known.rule, known.workload) != (planned.rule, run.workload):
                raise _RefusedError(_taken(planned))
            return known
        try:
            async with self._turns.of(run.workload[0]):
                pod = await self._client.get(PODS, planned.name, namespace=planned.namespace)
        except ApiError as error:
            if error.not_found:
                raise refusal from None
            raise
        return self._expect(pod, planned, run)

    def _expect(self, pod: JSON, planned: Planned, run: _Run) -> Companion:
        try:
            companion = companion_of(pod)
        except ValueError:
            raise _RefusedError(_taken(planned)) from None
        if (companion.rule, companion.workload) != (planned.rule, run.workload):
            raise _RefusedError(_taken(planned))
        self._caches.written.wrote(companion.key, companion)
        return companion

    async def _delete(self, companion: Companion, why: str, *, charged: bool = False) -> None:
        try:
            async with self._turns.of(companion.workload[0]):
                await self._client.delete(PODS, companion.name, namespace=companion.namespace, uid=companion.uid)
        except ApiError as error:
            # Gone, or another Pod has its name by now; the watch will tell.
            if not (error.not_found or error.conflict):
                raise
        if not charged:  # the API server writes that it is ending
            self._caches.storing.wrote(companion.workload[0], companion.size)
        self._caches.written.wrote(companion.key, replace(companion, ending=True, version=companion.version + 1))
        log.info("companion deleted", namespace=companion.namespace, name=companion.name, why=why)

    async def _replace_lost(self, planned: Planned, companion: Companion, run: _Run) -> None:
        wait = self._restarts.wait(companion.key)
        if wait > 0:
            run.findings[planned.rule] = Problem("CompanionLost", "the companion failed and is made anew after a pause")
            run.again.append(wait)
            return
        self._restarts.made(companion.key)
        await self._delete(companion, "lost")
        self._replacing(planned, run)

    async def _inject(self, planned: Planned, companion: Companion) -> None:
        annotations = _changes(planned, companion)
        metadata: JSON = {"uid": companion.uid, "annotations": annotations}
        if not companion.intact:
            given = planned.manifest["metadata"]
            metadata["labels"] = given["labels"]
            metadata["annotations"] = {**annotations, RULE_NAME: given["annotations"][RULE_NAME]}
        body = {"metadata": metadata}
        tenant = companion.workload[0]
        if (throttled := self._caches.storing.throttled(tenant, companion.size)) is not None:
            raise _RefusedError(throttled)
        try:
            async with self._turns.of(tenant):
                pod = await self._client.patch(
                    PODS, companion.name, body, patch_type="merge", namespace=companion.namespace
                )
            self._caches.written.wrote(companion.key, companion_of(pod))
        except ApiError as error:
            # Gone, or another Pod has its name by now.
            if not error.not_found:
                raise
        except ValueError:
            # Another client removed its marks at the same time; the watch will show it.
            return


def _changes(planned: Planned, companion: Companion) -> Mapping[str, str | None]:
    """What to write into the annotations: null removes one that was injected before and is not any more."""
    former = {name: planned.defaults.get(name) for name in companion.injected if name not in planned.injected}
    return {**former, **planned.injected, INJECTED: injected_mark(planned.injected)}


def _taken(planned: Planned) -> Problem:
    place = f"{planned.namespace}/{planned.name}"
    return Problem("NameTaken", f"Pod {place} is not ours: it has none of our marks, or those of another companion")


def _verdict(run: _Run) -> Result:
    if run.failures:
        first = run.failures[0]
        kind = _ExpectedError if all(one.expected for one in run.failures) else Transient
        raise kind(str(first), delay=max((one.delay or 0.0 for one in run.failures), default=0.0) or None)
    return RequeueAfter(min(run.again)) if run.again else Done()
