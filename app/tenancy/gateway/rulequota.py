"""How many rules one namespace may have, and how many keys that compute: each costs the controller at every event.

Judged from what the watch shows and what was just written here; replicas that write at the same moment may go beyond it
by as much as they write. Pure state: it sends nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

from app.kube.own_writes import OwnWrites
from app.kube.store import Store
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.rule_check import Keys
from app.tenancy.gateway.views import BY_NAMESPACE, View

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
        self._views = views
        self._workloads = workloads
        self._pairs = pairs
        self._own: OwnWrites[View] = OwnWrites(
            lambda key: views.get(*key), lifetime=_LAG, group=lambda view: view.namespace, clock=clock
        )
        self._own.follow(views)

    @contextlib.contextmanager
    def room(self, namespace: str, name: str, keys: Keys) -> Iterator[None]:
        """Around the write of a rule, which counts from the beginning; FAILED_PRECONDITION if it is too much."""
        rules, workloads = self._rules(namespace), self._workloads(namespace)
        refuse_beyond(name, keys, rules)
        if name not in rules and (len(rules) + 1) * workloads > self._pairs:
            text = f"there are {len(rules)} rules and {workloads} workloads"
            raise Refused(Code.FAILED_PRECONDITION, f"{text}: rules times workloads are {self._pairs} at most")
        key, written = (namespace, name), View(namespace, name, b"", keys=keys)
        former = self._own.noted(key)
        self._own.wrote(key, written)
        try:
            yield
        except BaseException:
            if self._own.written(key) is written:
                self._own.restore(key, former)
            raise

    def deleted(self, namespace: str, name: str) -> None:
        """The rule is gone; the watch may not have shown it yet."""
        self._own.deleted((namespace, name), "")

    def _rules(self, namespace: str) -> dict[str, Keys]:
        self._own.expire()
        names = {view.name for view in (*self._views.by_index(BY_NAMESPACE, namespace), *self._own.of(namespace))}
        found = {name: self._own.get((namespace, name)) for name in names}
        return {name: view.keys for name, view in found.items() if view is not None}
