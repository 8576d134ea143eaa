"""Evaluates new rules in small slices before they are put into the matcher, so that the event loop stays responsive.

Computed keys may be expensive. The rule that a new one replaces stays in force meanwhile. A result is valid as long as
the workload has the same document; a workload that changes meanwhile is evaluated again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from app.workloads.matching.index import Postings
from app.workloads.model import ObjectKey, Rule, Workload
from app.workloads.rules.keys import Facts, Found, holds

_SLICE = 0.005
"""Seconds that the event loop is held at a time."""
_LEFT = 4
"""Workloads that may be left to `put_rule`: where they change all the time there is always one."""


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
        known = self._known.get(workload.key)
        return known is not None and known.document == workload.document


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
