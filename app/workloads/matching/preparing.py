"""Evaluates a rule for one workload at a time before the rule is put: computed keys may be expensive.

Runs in the matcher's event loop and does not change the matcher. A result is valid as long as the workload has the same
document; a workload that changes meanwhile is evaluated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from app.workloads.matching.facts import Facts, holds
from app.workloads.matching.index import Postings
from app.workloads.model import ObjectKey, Rule, Workload

_LEFT = 4
"""Workloads that may be left to `put_rule`: where they change all the time there is always one."""


class Preparation:
    """What is known of one rule so far; `postings` are where its terms will be found, by the scope it will stand in."""

    def __init__(
        self, rule: Rule, postings: Mapping[str, Postings], in_sight: Callable[[], Iterable[Workload]]
    ) -> None:
        self.postings = postings
        self._rule = rule
        self._in_sight = in_sight
        self._known: dict[ObjectKey, Facts] = {}

    def steps(self) -> Iterator[None]:
        """Each step evaluates the rule for one workload; it ends once all that it sees are known, but for a few."""
        while len(waiting := [one for one in self._in_sight() if not self._knows(one)]) > _LEFT:
            for workload in waiting:
                self.facts(workload)
                yield

    def facts(self, workload: Workload) -> Facts:
        """What the rule and the index ask of the workload has been evaluated."""
        if not self._knows(workload):
            facts = self._known[workload.key] = Facts(workload.document)
            holds(self._rule.terms, facts)
            for posting in {one for found in self.postings.values() for one in found if one is not None}:
                facts.find(posting[0])
            facts.shrink()
        return self._known[workload.key]

    def _knows(self, workload: Workload) -> bool:
        known = self._known.get(workload.key)
        return known is not None and known.source == workload.document
