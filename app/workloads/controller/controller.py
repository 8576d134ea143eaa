"""The controller of the infra cluster: rules and workloads in, companions and statuses out.

Several may run at once (they should not, but a lease ends late) and agree on the same companions. All state is in the
cluster: a restart costs one look at every workload.

The companions of one workload are reconciled from the state and not from events. A companion that exists and is as it
should be costs no request, one that is missing costs one. Every write names the uid that it means, and what is not
ours is never adopted, changed or deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from app.errors import EXCEEDED_QUOTA, ApiError
from app.kube.controller import Controller, Result
from app.kube.kit import Kit
from app.kube.resources import PODS
from app.placement.model import PlacementOptions
from app.placement.settings import PlacementSettings
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.wire import JSON
from app.workloads.companions.marks import Companion, injected_mark, policy_of, size_of
from app.workloads.companions.plan import Planned, Planner
from app.workloads.controller.caches import Listeners, WorkloadCaches
from app.workloads.controller.statuses import DENIED_PAUSE, REPLACING, RefusedError, Restarts, Run
from app.workloads.controller.writing import QuietTime, RuleStatuses, WorkloadStatuses
from app.workloads.model import INJECTED, RULE_NAME, TENANT_NAMESPACE_PREFIX, ObjectKey, Problem, Waiting, Workload
from app.workloads.settings import DEFAULT_QUOTA, QuotaSettings

log = structlog.get_logger(__name__)
_AT_ONCE = 16
"""Rules of a workload that are looked at before others may run: each takes some 10 µs."""
_PENDING_PAUSE = 30.0
"""Seconds; a workload is woken before, when others have a node."""
_LONGEST_BACKOFF = 60.0
"""Seconds. The controller gets no event when a quota is raised or a webhook is repaired."""
_REPLACING = Waiting(REPLACING, "the former companion is still ending")


@dataclass(frozen=True, slots=True)
class CompanionOptions:
    """Times are in seconds. `status_workers` statuses of workloads are written at a time, and a third as many of rules.

    A rule's status is written at most once in `status_interval`, and once in ten of them while only the number of
    companions that run changes all the time. A companion that was lost is replaced at once, and then after pauses that
    begin with `restart_pause`.
    """

    placement: PlacementOptions = field(default_factory=PlacementOptions)
    status_workers: int = 12
    status_interval: float = 1.0
    restart_pause: float = 10.0
    quota: Mapping[str, int] = field(default_factory=lambda: DEFAULT_QUOTA)


def build(context: ControllerContext) -> Kit:
    kit = context.kit()
    options = CompanionOptions(
        placement=settings_as(context.settings, PlacementSettings).placement,
        quota=settings_as(context.settings, QuotaSettings).quota,
    )
    accompany(kit, options)
    return kit


def accompany(kit: Kit, options: CompanionOptions) -> None:
    """Make the controller of this kit, whose workers are for companions."""
    caches = WorkloadCaches(kit, options.quota)
    companions = Companions(kit, caches, options.placement, restart_pause=options.restart_pause)
    quiet = QuietTime(companions.waiting)
    workloads = WorkloadStatuses(kit, caches, quiet, workers=options.status_workers)
    rules = RuleStatuses(
        kit, caches, quiet, workers=max(2, options.status_workers // 3), interval=options.status_interval
    )
    caches.listeners = Listeners(
        workload=companions.controller.enqueue,
        workload_status=workloads.controller.enqueue,
        workload_status_shown=workloads.shown,
        rule_status=rules.changed,
        rule_running=rules.running_changed,
    )
    kit.beside("rules", lambda: caches.warming.run(caches.workloads.wait_synced))
    kit.each_second("workloads-lag", caches.expire)


class Companions:
    """As many requests are under way at a time as the kit has workers; tenants take turns."""

    def __init__(self, kit: Kit, caches: WorkloadCaches, placement: PlacementOptions, *, restart_pause: float) -> None:
        self._client, self._caches, self._planner = kit.client, caches, Planner(placement)
        for rules in (caches.tenant_rules, caches.admin_rules):
            rules.subscribe(lambda _, key, _old, new: None if new and new.rule else self._planner.forget(key))
        self._restarts = Restarts(pause=restart_pause)
        self.controller: Controller[ObjectKey] = kit.reconcile(
            "companions",
            self._reconcile,
            keys=caches.keys,
            wakes={},
            # From the least pause on, so that the first tries of what is refused are not all that pause apart.
            backoff=(DENIED_PAUSE, _LONGEST_BACKOFF),
        )

    def waiting(self, namespace: str) -> int:
        """Workloads that a status in this namespace speaks of, and that are not reconciled yet; an admin's of all."""
        queue = self.controller.queue
        if namespace.startswith(TENANT_NAMESPACE_PREFIX):
            return queue.unfinished(namespace)
        return len(queue) + queue.working

    async def _reconcile(self, key: ObjectKey) -> Result:
        """Raises Transient where something failed that is worth another try."""
        stored = self._caches.workloads.get(*key)
        run = Run(key, waited_before=key in self._caches.storing.waiters)
        if stored is not None and stored.workload is not None:
            await self._plan(stored.workload, run)
        observed = self._caches.observed(key)
        if stored is not None and stored.workload is None:
            # What was found of it before is no longer so; its companions stay as long as their rules do.
            of_rules = {
                companion.rule
                for companion in observed.values()
                if self._caches.stored_rule(companion.rule) is not None
            }
            run.findings |= dict.fromkeys(of_rules, stored.finding)
        for companion in observed.values():
            if companion.key not in run.desired and not companion.ending and not self._stays(companion, stored, run):
                self._restarts.forget(companion.key)
                await self._attempt(self._delete(companion, "no longer wanted"), companion.rule, run)
        for planned in run.desired.values():
            await self._attempt(self._settle(planned, observed.get(planned.key), run), planned.rule, run)
        self._caches.places.settle(key, holds=run.holds(), waits=run.waits)
        rules = {planned.rule for planned in run.desired.values()} | {companion.rule for companion in observed.values()}
        rules |= run.findings.keys() | self._caches.findings.of_workload(key).keys()
        self._caches.findings.put(key, run.findings)
        self._caches.listeners.workload_status(key)
        for rule in rules:
            self._caches.listeners.rule_status(rule)
        return run.result()

    async def _plan(self, workload: Workload, run: Run) -> None:
        plans = self._planner.plans(workload, self._caches.matcher.rules_of(workload.key))
        for number, (rule, outcome, computed) in enumerate(plans, start=1):
            if number % _AT_ONCE == 0 or computed:
                await asyncio.sleep(0)  # there may be hundreds of rules
            if not isinstance(outcome, Planned):
                run.findings[rule.key] = outcome
            elif outcome.key in run.desired:
                run.findings[rule.key] = Problem("NameTaken", f"another rule's companion is named {outcome.name}")
            else:
                run.desired[outcome.key] = outcome

    def _stays(self, companion: Companion, stored: object | None, run: Run) -> bool:
        """An invalid rule deletes no running companion; the end of the workload or of the rule does."""
        if stored is None:
            return False
        if companion.rule in self._caches.warming:
            return True  # whether the rule still matches is not known yet
        rule = self._caches.stored_rule(companion.rule)
        return isinstance(run.findings.get(companion.rule), Problem) or (rule is not None and rule.rule is None)

    async def _attempt(self, step: Awaitable[None], rule: ObjectKey, run: Run) -> None:
        """One companion's failure must not keep the others waiting."""
        try:
            await step
        except (RefusedError, ApiError) as error:
            run.failed(rule, error)

    async def _settle(self, planned: Planned, companion: Companion | None, run: Run) -> None:
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

    async def _replace(self, planned: Planned, companion: Companion, run: Run) -> None:
        """The old one runs until its successor may be made."""
        storing = self._caches.storing
        if (obstacle := storing.replacement(companion, size_of(planned.manifest), weight=planned.weight)) is not None:
            raise RefusedError(obstacle)
        try:
            await self._delete(companion, "made from another spec", charged=True)
        except ApiError:
            storing.failed(companion.key)
            raise
        self._replacing(planned, run)

    def _replacing(self, planned: Planned, run: Run) -> None:
        if self._has_place(planned, run):
            run.findings[planned.rule] = _REPLACING

    def _has_place(self, planned: Planned, run: Run) -> bool:
        """A companion in the tenant's own namespace needs none: a ResourceQuota counts it."""
        tenant, places, policy = run.workload[0], self._caches.places, policy_of(planned.host)
        if planned.namespace == tenant or places.take(run.workload, planned.key, policy):
            return True
        run.waits.add(policy)
        shortage = places.shortage(tenant, policy, planned.namespace)
        run.findings[planned.rule] = Problem("QuotaExceeded", shortage, of_workload=True)
        return False

    async def _create(self, planned: Planned, run: Run) -> None:
        storing = self._caches.storing
        full = run.full.get(planned.namespace)
        obstacle = full or storing.obstacle(
            run.workload, planned.key, size_of(planned.manifest), host=planned.host, weight=planned.weight
        )
        if isinstance(obstacle, Waiting) and run.workload in storing.waiters and not run.waited_before:
            # It mostly takes a moment: a status says so only where it lasts.
            run.again.append(_PENDING_PAUSE)
            return
        if obstacle is not None:
            raise RefusedError(obstacle)
        try:
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

    async def _present(self, planned: Planned, run: Run, refusal: ApiError) -> Companion:
        """The companion that stands where we wanted to create it: the watch has yet to show it, if it is ours.

        Raises `refusal` where it is gone again: the next try will do.
        """
        companion = self._caches.companions.get(*planned.key)
        if companion is not None:
            return _ours(companion, planned, run)
        try:
            pod = await self._client.get(PODS, planned.name, namespace=planned.namespace)
        except ApiError as error:
            if error.not_found:
                raise refusal from None
            raise
        return self._expect(pod, planned, run)

    def _expect(self, pod: JSON, planned: Planned, run: Run) -> Companion:
        try:
            companion = self._caches.read(pod)
        except ValueError:
            companion = None
        written = _ours(companion, planned, run)
        self._caches.written.wrote(planned.key, written)
        return written

    async def _delete(self, companion: Companion, why: str, *, charged: bool = False) -> None:
        try:
            await self._client.delete(PODS, companion.name, namespace=companion.namespace, uid=companion.uid)
        except ApiError as error:
            # Gone, or another Pod has its name by now; the watch will show it.
            if not (error.not_found or error.conflict):
                raise
        if not charged:  # the API server writes that it is ending
            self._caches.storing.writes.spend(companion.workload[0], companion.size)
        self._caches.written.wrote(companion.key, replace(companion, ending=True, version=companion.version + 1))
        log.info("companion deleted", namespace=companion.namespace, name=companion.name, why=why)

    async def _replace_lost(self, planned: Planned, companion: Companion, run: Run) -> None:
        wait = self._restarts.wait(companion.key)
        if wait > 0:
            run.findings[planned.rule] = Problem("CompanionLost", "the companion failed and is replaced after a pause")
            run.again.append(wait)
            return
        self._restarts.made(companion.key)
        await self._delete(companion, "lost")
        self._replacing(planned, run)

    async def _inject(self, planned: Planned, companion: Companion) -> None:
        # Null removes an annotation that was injected before and is not any more.
        former = {name: planned.defaults.get(name) for name in companion.injected if name not in planned.injected}
        annotations = {**former, **planned.injected, INJECTED: injected_mark(planned.injected)}
        metadata: JSON = {"uid": companion.uid, "annotations": annotations}
        if not companion.intact:
            given = planned.manifest["metadata"]
            metadata["labels"] = given["labels"]
            annotations[RULE_NAME] = given["annotations"][RULE_NAME]
        tenant = companion.workload[0]
        if (throttled := self._caches.storing.throttled(tenant, companion.size)) is not None:
            raise RefusedError(throttled)
        try:
            pod = await self._client.patch(
                PODS, companion.name, {"metadata": metadata}, patch_type="merge", namespace=companion.namespace
            )
            self._caches.written.wrote(companion.key, self._caches.read(pod))
        except ApiError as error:
            # Gone, or another Pod has its name by now.
            if not error.not_found:
                raise
        except ValueError:
            # Another client removed its marks at the same time; the watch will show it.
            return


def _ours(companion: Companion | None, planned: Planned, run: Run) -> Companion:
    """The companion where it is the planned one; raises RefusedError for any other Pod."""
    if companion is not None and (companion.rule, companion.workload) == (planned.rule, run.workload):
        return companion
    text = (
        f"Pod {planned.namespace}/{planned.name} is not ours: it has none of our marks, or those of another companion"
    )
    raise RefusedError(Problem("NameTaken", text))
