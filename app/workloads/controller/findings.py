"""Stores why workloads lack companions, as the last reconcile found it, for the status writers.

Holds only problems, so that it is empty in a healthy cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.workloads.companions.plan import Problem, Waiting
from app.workloads.model import ObjectKey

Finding = Problem | Waiting
REPLACING = "Replacing"
"""Reason of a companion whose predecessor is still ending."""


class Findings:
    """Findings by workload and by rule."""

    def __init__(self) -> None:
        self._by_workload: dict[ObjectKey, dict[ObjectKey, Finding]] = {}
        self._by_rule: dict[ObjectKey, dict[ObjectKey, Finding]] = {}

    def put(self, workload: ObjectKey, found: Mapping[ObjectKey, Finding]) -> None:
        """Replace all that is known of a workload; `found` is by rule."""
        before = self._by_workload.get(workload, {})
        for rule in before.keys() - found.keys():
            del self._by_rule[rule][workload]
            if not self._by_rule[rule]:
                del self._by_rule[rule]
        for rule, finding in found.items():
            self._by_rule.setdefault(rule, {})[workload] = finding
        if found:
            self._by_workload[workload] = dict(found)
        else:
            self._by_workload.pop(workload, None)

    def of_workload(self, workload: ObjectKey) -> Mapping[ObjectKey, Finding]:
        return self._by_workload.get(workload, {})

    def of_rule(self, rule: ObjectKey) -> Mapping[ObjectKey, Finding]:
        return self._by_rule.get(rule, {})
