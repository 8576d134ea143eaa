"""How many rules one namespace may have, and how many keys that compute: each costs the controller at every event.

Judged from what the watch shows and what was just written here; replicas that write at the same moment may go beyond it
by as much as they write. Pure state: it sends nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from app.kube.store import EventType, Key, Store
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.rule_check import Keys
from app.tenancy.gateway.views import View
from app.tenancy.proto import rule_pb as pb
from app.workloads.rules.problems import computed_keys

MAX_RULES = 256
MAX_COMPUTED = 16
"""Different keys in the terms of all rules together."""
_LAG = 30.0
"""Seconds for which the watch may not have shown yet what was written."""


def refuse_beyond(name: str, keys: Keys, rules: Mapping[str, Keys]) -> None:
    """FAILED_PRECONDITION if a rule with these keys is too much beside (or in place of) the `rules` that there are.

    A rule that asks for no more than it has may always be written.
    """
    if name not in rules and len(rules) >= MAX_RULES:
        raise Refused(Code.FAILED_PRECONDITION, f"there are {len(rules)} rules already: at most {MAX_RULES}")
    others: Keys = frozenset().union(*(held for other, held in rules.items() if other != name))
    count = len(others | keys)
    if count > MAX_COMPUTED and not keys <= others | rules.get(name, frozenset()):
        text = (
            f"the rules would have {count} different keys in their terms that are more than a path of names: at most "
            f"{MAX_COMPUTED} in all rules together"
        )
        raise Refused(Code.FAILED_PRECONDITION, text)


class RuleQuota:
    """The rules of all tenants, by the views of them that a gateway keeps.

    `workloads` says how many there are in a namespace; rules times workloads are `pairs` at most.
    """

    def __init__(
        self,
        views: Store[View],
        *,
        workloads: Callable[[str], int],
        pairs: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workloads = workloads
        self._pairs = pairs
        self._clock = clock
        self._shown: dict[str, dict[str, Keys]] = {}
        self._written: dict[str, dict[str, tuple[Keys | None, float]]] = {}
        for view in views.values():
            self._changed("ADDED", (view.namespace, view.name), None, view)
        views.subscribe(self._changed)

    @contextlib.contextmanager
    def room(self, namespace: str, name: str, keys: Keys) -> Iterator[None]:
        """Around the write of a rule, which counts from the beginning; FAILED_PRECONDITION if it is too much."""
        rules, workloads = self._rules(namespace), self._workloads(namespace)
        refuse_beyond(name, keys, rules)
        if name not in rules and (len(rules) + 1) * workloads > self._pairs:
            text = f"there are {len(rules)} rules and {workloads} workloads"
            raise Refused(Code.FAILED_PRECONDITION, f"{text}: rules times workloads are {self._pairs} at most")
        former = self._written.setdefault(namespace, {}).pop(name, None)
        note = self._written[namespace][name] = keys, self._clock() + _LAG
        try:
            yield
        except BaseException:
            notes = self._written.get(namespace, {})
            if notes.get(name) is note:
                del notes[name]
                if former is not None:
                    notes[name] = former
            raise

    def deleted(self, namespace: str, name: str) -> None:
        """The rule is gone; the watch may not have shown it yet."""
        self._written.setdefault(namespace, {})[name] = None, self._clock() + _LAG

    def _rules(self, namespace: str) -> dict[str, Keys]:
        now = self._clock()
        notes = {name: note for name, note in self._written.pop(namespace, {}).items() if note[1] > now}
        if notes:
            self._written[namespace] = notes
        found = dict(self._shown.get(namespace, {}))
        for name, (keys, _) in notes.items():
            if keys is None:
                found.pop(name, None)
            else:
                found[name] = keys
        return found

    def _changed(self, _: EventType, key: Key, _old: View | None, new: View | None) -> None:
        namespace, name = key
        self._written.get(namespace, {}).pop(name, None)
        shown = self._shown.setdefault(namespace, {})
        if new is None:
            shown.pop(name, None)
        else:
            shown[name] = computed_keys(_texts(pb.WorkloadRule.FromString(new.message)))
        if not shown:
            del self._shown[namespace]


def _texts(rule: pb.WorkloadRule) -> Iterable[str]:
    return (one.key for term in rule.data.workload_terms for one in term.match_expressions)
