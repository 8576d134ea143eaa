"""Two indexes that find possible matches: rules by the values they ask for, workloads by the values they have.

They give candidates only: the caller still has to evaluate each. A term is found under one of its `In` expressions; a
term without any is always a candidate.

New rules are evaluated in small slices before they are put into the matcher, so that the event loop stays responsive:
computed keys may be expensive. The rule that a new one replaces stays in force meanwhile. A result is valid as long
as the workload has the same document; a workload that changes meanwhile is evaluated again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from app.workloads.model import Expression, ObjectKey, Rule, Term, Workload
from app.workloads.rules.keys import Facts, Found, compile_key, holds

Posting = tuple[str, frozenset[str]]
"""(key, values): where a term is found."""
Postings = tuple[Posting | None, ...]
"""Those of the terms of a rule; a term without one is always a candidate."""
_Buckets = dict[str, dict[str, set[ObjectKey]]]
"""By key, by value."""
_USUAL_WEIGHT = 4
_WEIGHTS = {
    "metadata.id": 1,
    "metadata.resourceName": 1,
    "metadata.resourceNamespace": 16,
    "state.ready": 64,
    "metadata.orchestrator": 1024,
    "metadata.resourceType": 1024,
}
"""How many workloads share a value of the key, roughly and relative to each other."""
_SLICE = 0.005
"""Seconds that the event loop is held at a time."""
_LEFT = 4
"""Workloads that may be left to `put_rule`: where they change all the time there is always one."""


class RuleIndex:
    """The rules that look at the same workloads (of one tenant, or of all), by what they ask for."""

    def __init__(self) -> None:
        self._buckets: _Buckets = {}
        self._always: set[ObjectKey] = set()
        self._postings: dict[ObjectKey, Postings] = {}

    def __bool__(self) -> bool:
        return bool(self._postings)

    @property
    def rules(self) -> Iterable[ObjectKey]:
        return self._postings.keys()

    @property
    def keys(self) -> Iterable[str]:
        """The keys under which rules are found; an event evaluates no other for finding them."""
        return self._buckets.keys()

    def choose(self, rule: Rule) -> Postings:
        """Where the terms of a rule are best found, as things are."""
        return tuple(map(self._choose, rule.terms))

    def add(self, rule: Rule, postings: Postings) -> None:
        """The rule must not be here yet; `postings` are its terms', chosen here, now or before."""
        for posting in postings:
            if posting is None:
                self._always.add(rule.key)
                continue
            buckets = self._buckets.setdefault(posting[0], {})
            for value in posting[1]:
                buckets.setdefault(value, set()).add(rule.key)
        self._postings[rule.key] = postings

    def remove(self, rule: ObjectKey) -> None:
        for posting in self._postings.pop(rule):
            if posting is None:
                self._always.discard(rule)
                continue
            key, values = posting
            buckets = self._buckets.get(key, {})
            for value in values:
                _discard(buckets, value, rule)
            if not buckets:
                self._buckets.pop(key, None)

    def candidates(self, facts: Facts) -> set[ObjectKey]:
        """The rules of which a term may hold."""
        keys = set(self._always)
        for key, buckets in self._buckets.items():
            value = facts.find(key)
            if isinstance(value, str):
                keys.update(buckets.get(value, ()))
        return keys

    def _choose(self, term: Term) -> Posting | None:
        """The expression that is likely to be true least often, and that few other rules are found under."""
        usable = [expression for expression in term if expression.operator == "In" and expression.values]
        if not usable:
            return None
        best = min(usable, key=self._price)
        return best.key, best.values

    def _price(self, expression: Expression) -> tuple[int, int]:
        buckets = self._buckets.get(expression.key, {})
        crowd = max(len(buckets.get(value, ())) for value in expression.values)
        return (crowd + 1) * _WEIGHTS.get(expression.key, _USUAL_WEIGHT), len(expression.values)


class WorkloadIndex:
    """The workloads of one namespace, by what they have under the keys that rules are found by."""

    def __init__(self) -> None:
        self._buckets: _Buckets = {}
        self._computed: dict[str, dict[ObjectKey, str]] = {}
        """What members have under keys that compute: too dear to be worked out again for taking note of a change."""
        self.members: set[ObjectKey] = set()

    def track(self, key: str, values: Iterable[tuple[ObjectKey, Found]]) -> None:
        """Begin to index by a key; `values` (read only where it is new) are all members with what they have."""
        if key in self._buckets:
            return
        self._buckets[key] = {}
        if compile_key(key).path is None:
            self._computed[key] = {}
        for member, value in values:
            self._insert(key, value, member)

    def track_only(self, keys: set[str]) -> None:
        """Give up the keys that are not among these."""
        for key in self._buckets.keys() - keys:
            del self._buckets[key]
            self._computed.pop(key, None)

    def move(self, member: ObjectKey, before: Facts | None, after: Facts | None) -> None:
        """Take note of a change; None before: the workload is new, None after: it is gone."""
        if after is None:
            self.members.discard(member)
        else:
            self.members.add(member)
        for key, buckets in self._buckets.items():
            if key in self._computed:
                old: Found = self._computed[key].pop(member, None)
            else:
                old = None if before is None else before.find(key)
            new = None if after is None else after.find(key)
            if old == new and key not in self._computed:
                continue
            if isinstance(old, str) and old != new:
                _discard(buckets, old, member)
            self._insert(key, new, member)

    def cost(self, posting: Posting | None) -> int:
        """How many workloads have to be looked at for a term that is found there, whether the key is tracked or not."""
        buckets = None if posting is None else self._buckets.get(posting[0])
        if posting is None or buckets is None:
            return len(self.members)
        return sum(len(buckets.get(value, ())) for value in posting[1])

    def candidates(self, posting: Posting | None) -> Iterator[ObjectKey]:
        """The workloads for which a term that is found there may hold; the key is tracked."""
        if posting is None:
            yield from self.members
            return
        buckets = self._buckets[posting[0]]
        for value in posting[1]:
            yield from buckets.get(value, ())

    def _insert(self, key: str, value: Found, member: ObjectKey) -> None:
        if isinstance(value, str):
            self._buckets[key].setdefault(value, set()).add(member)
            if key in self._computed:
                self._computed[key][member] = value


def _discard(buckets: dict[str, set[ObjectKey]], value: str, member: ObjectKey) -> None:
    """Two terms of a rule may share a bucket, so what is gone already is no fault."""
    bucket = buckets.get(value, set())
    bucket.discard(member)
    if not bucket:
        buckets.pop(value, None)


class _Known(NamedTuple):
    """Of one workload. No more is kept of it: a rule may have hundreds of keys, and see tens of thousands of them."""

    document: bytes
    holds: bool
    values: tuple[Found, ...]
    fault: str


class Preparation:
    """What is known of one rule so far; `postings` are where its terms will be found, by the scope it will stand in."""

    def __init__(
        self, rule: Rule, postings: Mapping[str, Postings], in_sight: Callable[[], Iterable[Workload]]
    ) -> None:
        self._rule, self.postings = rule, postings
        self._keys = sorted({posting[0] for group in postings.values() for posting in group if posting is not None})
        self._in_sight = in_sight
        self._known: dict[ObjectKey, _Known] = {}

    def steps(self) -> Iterator[None]:
        """Each step evaluates the rule for one workload; it ends once all that it sees are known, but for a few."""
        while len(waiting := [workload for workload in self._in_sight() if not self._knows(workload)]) > _LEFT:
            for workload in waiting:
                self._look(workload)
                yield

    def holds(self, workload: Workload) -> bool:
        return self._look(workload).holds

    def fault(self, workload: Workload) -> str:
        """Which key cannot be evaluated for the workload, and why."""
        return self._look(workload).fault

    def value(self, key: str, workload: Workload) -> Found:
        """What the workload has under a key by which the rule is found."""
        return self._look(workload).values[self._keys.index(key)]

    def _look(self, workload: Workload) -> _Known:
        if not self._knows(workload):
            facts = Facts(workload.document)
            met = holds(self._rule.terms, facts)
            values = tuple(map(facts.find, self._keys))
            self._known[workload.key] = _Known(workload.document, met, values, facts.fault_of(self._rule.keys))
        return self._known[workload.key]

    def _knows(self, workload: Workload) -> bool:
        stored = self._known.get(workload.key)
        return stored is not None and stored.document == workload.document


class Warming:
    """`put` in what is heavy: `prepare` begins with a rule, and `done` gets it when it is prepared.

    A rule that raises is dropped, and `failed` gets it with the reason.

    Namespaces take turns, each with its oldest rule: expensive rules of one tenant delay only its own. A cancelled
    task loses only unfinished evaluations.
    """

    def __init__(
        self,
        prepare: Callable[[Rule], Preparation],
        done: Callable[[Rule, Preparation], object],
        failed: Callable[[Rule, Exception], object],
    ) -> None:
        self._prepare, self._done, self._failed = prepare, done, failed
        self._waiting: dict[ObjectKey, Rule] = {}
        self._begun: dict[ObjectKey, tuple[Preparation, Iterator[None]]] = {}
        self._filled = asyncio.Event()

    def __contains__(self, rule: ObjectKey) -> bool:
        return rule in self._waiting

    def put(self, rule: Rule) -> None:
        """Instead of another version that may wait already."""
        self.drop(rule.key)
        self._waiting[rule.key] = rule
        self._filled.set()

    def drop(self, rule: ObjectKey) -> bool:
        """It is not to be put any more; whether it waited."""
        self._begun.pop(rule, None)
        return self._waiting.pop(rule, None) is not None

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Until cancelled. Begins when `ready` returns: workloads that are still coming in would be looked at twice."""
        await ready()
        while True:
            await self._filled.wait()
            for key in {key[0]: key for key in reversed(self._waiting)}.values():
                try:
                    self._work(key)
                except Exception as error:  # noqa: BLE001  the wall: the rules of the other tenants are prepared
                    self._give_up(key, error)
                await asyncio.sleep(0)  # other tasks run
            if not self._waiting:
                self._filled.clear()

    def _give_up(self, key: ObjectKey, error: Exception) -> None:
        rule = self._waiting.get(key)
        self.drop(key)
        if rule is not None:
            self._failed(rule, error)

    def _work(self, key: ObjectKey) -> None:
        rule = self._waiting.get(key)
        if rule is None:
            return  # dropped since the turn began
        if key not in self._begun:
            preparation = self._prepare(rule)
            self._begun[key] = preparation, preparation.steps()
        preparation, steps = self._begun[key]
        end = time.perf_counter() + _SLICE
        for _ in steps:
            if time.perf_counter() >= end:
                return
        self.drop(key)
        self._done(rule, preparation)
