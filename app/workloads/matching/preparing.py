"""Evaluates a rule for one workload at a time before the rule is put: computed keys may be expensive.

The matcher does not change meanwhile. A result is valid as long as the workload has the same document; a workload that
changes meanwhile is evaluated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from app.workloads.matching.index import Postings
from app.workloads.model import ObjectKey, Rule, Workload
from app.workloads.rules.keys import Facts, Found, holds

_LEFT = 4
"""Workloads that may be left to `put_rule`: where they change all the time there is always one."""


class _Known(NamedTuple):
    """Of one workload. No more is kept of it: a rule may have hundreds of keys, and see tens of thousands of them."""

    document: bytes
    holds: bool
    values: tuple[Found, ...]


class Preparation:
    """What is known of one rule so far; `postings` are where its terms will be found, by the scope it will stand in."""

    def __init__(
        self, rule: Rule, postings: Mapping[str, Postings], in_sight: Callable[[], Iterable[Workload]]
    ) -> None:
        self._rule, self.postings = rule, postings
        self._keys = sorted({one[0] for found in postings.values() for one in found if one is not None})
        self._in_sight = in_sight
        self._known: dict[ObjectKey, _Known] = {}

    def steps(self) -> Iterator[None]:
        """Each step evaluates the rule for one workload; it ends once all that it sees are known, but for a few."""
        while len(waiting := [one for one in self._in_sight() if not self._knows(one)]) > _LEFT:
            for workload in waiting:
                self._look(workload)
                yield

    def holds(self, workload: Workload) -> bool:
        return self._look(workload).holds

    def value(self, key: str, workload: Workload) -> Found:
        """What the workload has under a key by which the rule is found."""
        return self._look(workload).values[self._keys.index(key)]

    def _look(self, workload: Workload) -> _Known:
        if not self._knows(workload):
            facts = Facts(workload.document)
            met = holds(self._rule.terms, facts)
            self._known[workload.key] = _Known(workload.document, met, tuple(map(facts.find, self._keys)))
        return self._known[workload.key]

    def _knows(self, workload: Workload) -> bool:
        known = self._known.get(workload.key)
        return known is not None and known.document == workload.document
