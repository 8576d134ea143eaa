"""The controller's caches: workloads, rules and companions, and which rules match which workloads.

Contains the stores, and the objects to reconcile after each change.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from app.kube.kit import Kit
from app.kube.own_writes import OwnWrites, by_version
from app.kube.resources import PODS
from app.kube.store import EventType, Store, key_of
from app.kube.walls import fault
from app.wire import JSON
from app.workloads.companions.marks import Companion, companion_of, version_of
from app.workloads.controller.places import Places
from app.workloads.controller.statuses import Findings
from app.workloads.controller.stored import StoredRule, StoredWorkload, stored_companion, stored_rule, stored_workload
from app.workloads.controller.storing import Storing
from app.workloads.matching.index import Preparation, Warming
from app.workloads.matching.matcher import Matcher
from app.workloads.model import (
    ADMIN_RULES,
    COMPANION,
    KEY_FAILED,
    SYSTEM_NAMESPACE,
    TENANT_RULES,
    WORKLOADS,
    ObjectKey,
    Problem,
    Rule,
)

LAG = 10.0
"""Seconds for which the watch may not have shown yet what was written."""
_COURSE = ("bound", "queued", "standing")
_but_for_its_course = attrgetter(
    *(field.name for field in fields(Companion) if field.compare and field.name not in _COURSE)
)


def _ignore(_key: ObjectKey) -> None:
    """For those who only look at the caches."""


@dataclass(slots=True)
class Listeners:
    """Called with workloads to reconcile, and with workloads and rules whose status may have to change."""

    workload: Callable[[ObjectKey], object] = _ignore
    workload_status: Callable[[ObjectKey], object] = _ignore
    rule_status: Callable[[ObjectKey], object] = _ignore
    rule_running: Callable[[ObjectKey], object] = _ignore
    """Only how many of its companions run has changed."""
    workload_status_shown: Callable[[ObjectKey, StoredWorkload, StoredWorkload], object] = lambda *_: None
    """Only the status of a Workload has changed; called with the key, and what was stored before and after."""


def own_writes(
    cached: Callable[[ObjectKey], Companion | None], *, clock: Callable[[], float] = time.monotonic
) -> OwnWrites[Companion]:
    """Companions as our last write left them, by workload."""
    return by_version(cached, lifetime=LAG, group=lambda companion: companion.workload, clock=clock)


class WorkloadCaches:
    """Everything that a reconcile reads, as caches of the kit. `listeners` has to be set before they are filled.

    One change tells several reconcilers, and is put into the index of matches once: so the kit does not wake them.
    """

    def __init__(self, kit: Kit, quota: Mapping[str, int]) -> None:
        self.listeners = Listeners()
        self.findings = Findings()
        self.matcher = Matcher()
        self.warming = Warming(self.matcher.prepare, self._warmed, self._failed)
        self._failures: dict[ObjectKey, str] = {}
        self._standings: dict[ObjectKey, Counter[str]] = {}
        """Of the companions of each rule that are not being deleted."""
        self._removing: dict[ObjectKey, set[ObjectKey]] = {}
        self.workloads: Store[StoredWorkload] = kit.cache(WORKLOADS, self._stored_workload)
        self.tenant_rules = kit.cache(TENANT_RULES, lambda obj: stored_rule(obj, "tenant"))
        self.admin_rules = kit.cache(ADMIN_RULES, lambda obj: stored_rule(obj, "admin"), namespace=SYSTEM_NAMESPACE)
        self.companions: Store[Companion] = kit.cache(PODS, self._companion, labels=COMPANION)
        # An index of the store would need four times the memory.
        self._by_workload: dict[ObjectKey, tuple[Companion, ...]] = {}
        self.written = own_writes(lambda key: self.companions.get(*key))
        self.places = Places(quota, cached=lambda key: self.companions.get(*key), wake=self._wake)
        self.storing = Storing(quota, wake=self._wake)
        self.stores: tuple[Store[Any], ...] = (self.workloads, self.tenant_rules, self.admin_rules, self.companions)
        self.workloads.subscribe(self._workload_changed)
        self.tenant_rules.subscribe(self._rule_changed)
        self.admin_rules.subscribe(self._rule_changed)
        self.companions.subscribe(self._companion_changed)
        self.on_renewed(self.written.clear)
        self.on_renewed(self.storing.forget)

    @property
    def in_doubt(self) -> bool:
        """Whether one of the caches may show what never was."""
        return any(store.in_doubt for store in self.stores)

    def on_renewed(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when a doubt is over, and no other is left."""
        for store in self.stores:
            store.on_renewed(lambda: None if self.in_doubt else listener())

    def stored_rule(self, key: ObjectKey) -> StoredRule | None:
        return self.tenant_rules.get(*key) or self.admin_rules.get(*key)

    def failures(self, rule: ObjectKey) -> tuple[str, ...]:
        """Why a rule that is right could not be put in force."""
        return (self._failures[rule],) if rule in self._failures else ()

    def key_failures(self, rule: ObjectKey) -> Iterator[Problem]:
        """The workloads for which a key of the rule cannot be evaluated."""
        for workload, reason in self.matcher.faults_of(rule).items():
            yield Problem(KEY_FAILED, f"Workload {workload[1]}: {reason}", of_workload=True)

    def removing(self, rule: ObjectKey) -> int:
        """How many companions of a rule have to go, because it does not match their workloads."""
        return len(self._removing.get(rule, ()))

    def standings(self, rule: ObjectKey) -> Counter[str]:
        """How many companions of a rule exist, without those that have to go, by what keeps them from running."""
        counts = Counter(self._standings.get(rule))
        for key in self._removing.get(rule, ()):
            if (companion := self.companions.get(*key)) is not None:
                counts[companion.standing] -= 1
        return +counts

    def lacking(self, rule: ObjectKey) -> Counter[str]:
        """Workloads of which it is known why they have no companion of this rule, by the reason."""
        return Counter(
            finding.reason
            for workload, finding in self.findings.of_rule(rule).items()
            if not any(
                companion.rule == rule and not companion.ending for companion in self._by_workload.get(workload, ())
            )
        )

    def observed(self, workload: ObjectKey) -> dict[ObjectKey, Companion]:
        """The companions of a workload, as the watch and our own writes say."""
        observed = {companion.key: companion for companion in self._by_workload.get(workload, ())}
        return observed | {companion.key: companion for companion in self.written.of(workload)}

    def keys(self) -> set[ObjectKey]:
        """Every workload that exists or has companions: the sweep over these leaves no orphan."""
        return {*self.workloads.keys(), *(companion.workload for companion in self.companions.values())}

    def expire(self) -> None:
        """Look again at what the watch has not confirmed in time."""
        self.storing.expire()
        for companion in self.written.expire():
            self._wake(companion.workload)

    def read(self, pod: JSON) -> Companion:
        """The companion that the API server has answered with. Raises ValueError, with the reason, where it is none."""
        shown = self.companions.get(*key_of(pod))
        if shown is None or self.companions.in_doubt:
            return companion_of(pod)
        # The watch may have been faster: it was read before.
        return shown if shown.version == version_of(pod["metadata"]) > 0 else companion_of(pod)

    def _stored_workload(self, obj: JSON) -> StoredWorkload:
        stored = stored_workload(obj)
        present = self.workloads.get(*key_of(obj))
        if present is not None and present.workload == stored.workload:
            # The matcher holds it, too: one copy in memory is enough.
            return StoredWorkload(present.workload, stored.status, stored.problem)
        return stored

    def _companion(self, pod: JSON) -> Companion | None:
        written = self.written.written(key_of(pod))
        if written is None or written.ending or self.companions.in_doubt:
            return stored_companion(pod)  # in another history the same version may be another state
        # The answer to our own write was read before.
        return written if written.version == version_of(pod["metadata"]) > 0 else stored_companion(pod)

    def _workload_changed(
        self, _: EventType, key: ObjectKey, old: StoredWorkload | None, new: StoredWorkload | None
    ) -> None:
        after = new.workload if new else None
        if old is not None and new is not None and (old.workload, old.problem) == (after, new.problem):
            self.listeners.workload_status_shown(key, old, new)
            return
        rules = self.matcher.put_workload(after) if after is not None else self.matcher.remove_workload(key)
        for companion in self._by_workload.get(key, ()):
            self._judge(companion)
        self.listeners.workload(key)
        for rule in rules:
            self.listeners.rule_status(rule)

    def _rule_changed(self, _: EventType, key: ObjectKey, old: StoredRule | None, new: StoredRule | None) -> None:
        before, after = old.rule if old else None, new.rule if new else None
        workloads: set[ObjectKey] = set()
        waited = after != before and self.warming.drop(key)
        if after != before:
            self._failures.pop(key, None)
        try:
            if after is not None and after != before:
                if self.matcher.heavy(after):
                    self.warming.put(after)
                else:
                    workloads |= self.matcher.put_rule(after)
            elif after is None and before is not None:
                workloads |= self.matcher.remove_rule(key)
        except Exception as error:  # noqa: BLE001  the wall: the status of the rule says so
            self._note_failure(key, error)
        if waited or after is None or (old is not None and before is None):
            workloads |= self._others_with_companions_of(key, workloads)
        self._tell(key, workloads)

    def _warmed(self, rule: Rule, preparation: Preparation) -> None:
        workloads = self.matcher.put_rule(rule, preparation)
        self._tell(rule.key, workloads | self._others_with_companions_of(rule.key, workloads))

    def _failed(self, rule: Rule, error: Exception) -> None:
        self._note_failure(rule.key, error)
        self.listeners.rule_status(rule.key)

    def _note_failure(self, rule: ObjectKey, error: Exception) -> None:
        fault("rules", "rule not in force", namespace=rule[0], name=rule[1])
        self._failures[rule] = f"the rule cannot be evaluated ({type(error).__name__}); the log has it"

    def _others_with_companions_of(self, rule: ObjectKey, workloads: set[ObjectKey]) -> set[ObjectKey]:
        """For a rule that is broken, gone or was waited for: companions may be known by their marks alone."""
        companions = (companion for workload in workloads for companion in self._by_workload.get(workload, ()))
        number = sum(companion.rule == rule and not companion.ending for companion in companions)
        if number == self._standings.get(rule, Counter()).total():
            return set()  # to look at the companions of all rules takes long
        return {companion.workload for companion in self.companions.values() if companion.rule == rule}

    def _tell(self, rule: ObjectKey, workloads: set[ObjectKey]) -> None:
        for workload in workloads:
            for companion in self._by_workload.get(workload, ()):
                if companion.rule == rule:
                    self._judge(companion)
            self.listeners.workload(workload)
        self.listeners.rule_status(rule)

    def _companion_changed(self, _: EventType, key: ObjectKey, old: Companion | None, new: Companion | None) -> None:
        self._index(key, old, new)
        self.places.seen(key, old, new)
        self.storing.seen(key, old, new)
        met = self.written.shown(key, old, new)
        self._count(old, new)
        if old is not None and new is not None and _but_for_its_course(old) == _but_for_its_course(new):
            # It was only scheduled, started or the like: nothing has to be done then.
            if old.standing != new.standing:
                self.listeners.rule_running(new.rule)
            return
        for companion in (old, new):
            if companion is None:
                continue
            self._judge(companion, gone=companion is not new)
            if not met:
                self.listeners.workload(companion.workload)
        latest = new or old
        if latest is not None and (old is None or old.ending) != (new is None or new.ending):
            self.listeners.rule_status(latest.rule)

    def _judge(self, companion: Companion, *, gone: bool = False) -> None:
        """Note whether the companion has to go. One of a rule or workload that cannot be used stays."""
        stored, rule = self.workloads.get(*companion.workload), self.stored_rule(companion.rule)
        unusable = (stored is not None and stored.workload is None) or (rule is not None and rule.rule is None)
        removing = self._removing.setdefault(companion.rule, set())
        if gone or companion.ending or unusable or self.matcher.matches(companion.rule, companion.workload):
            removing.discard(companion.key)
        else:
            removing.add(companion.key)
        if not removing:
            del self._removing[companion.rule]

    def _index(self, key: ObjectKey, old: Companion | None, new: Companion | None) -> None:
        for companion in (old, new):
            if companion is not None:
                others = tuple(other for other in self._by_workload.get(companion.workload, ()) if other.key != key)
                self._by_workload[companion.workload] = (*others, companion) if companion is new else others
                if not self._by_workload[companion.workload]:
                    del self._by_workload[companion.workload]

    def _wake(self, workload: ObjectKey) -> None:
        self.listeners.workload(workload)

    def _count(self, old: Companion | None, new: Companion | None) -> None:
        for companion, by in ((old, -1), (new, 1)):
            if companion is not None and not companion.ending:
                counted = self._standings.setdefault(companion.rule, Counter())
                counted[companion.standing] += by
                if not counted[companion.standing]:
                    del counted[companion.standing]
                if not counted:
                    del self._standings[companion.rule]
