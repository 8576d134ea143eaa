"""Limits what one tenant may store: bytes a second, Pods, rules and the keys that they compute. No I/O."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app.errors import EXCEEDED_QUOTA
from app.kube.own_writes import OwnWrites
from app.kube.rate import Rate
from app.kube.store import EventType, Key, Store
from app.tenancy.gateway.caches import BY_NAMESPACE, Keys, View
from app.tenancy.gateway.failures import Code, Refused, later
from app.tenancy.gateway.settings import Limits

MAX_RULES = 256
MAX_COMPUTED = 16
"""Different keys in the terms of all rules together: each costs the controller at every event."""
_LAG = 30.0
"""Seconds for which the watch may not have shown yet what was written."""


@dataclass(slots=True)
class _Pods:
    """What the Pods of one namespace have together; the names are those of `View`."""

    size: int = 0
    pending: int = 0
    weight: int = 0


class Storing:
    """The rate of written bytes, and the bytes and the number of Pods; a ResourceQuota only counts objects.

    etcd keeps every written state until compaction, minutes later. Pods of all tenants wait in one queue of the
    scheduler. Judged by what the cache of the resource service's Pods shows: what is on its way comes on top.
    """

    def __init__(self, limits: Limits, pods: Store[View]) -> None:
        self._limits = limits
        self._pods = pods
        self._stored: dict[str, _Pods] = {}
        self._written: Rate[str] = Rate(per_second=limits.stored_bytes_per_second, burst=limits.stored_bytes_burst)
        self.turn, self.forget_idle = self._written.turn, self._written.forget_idle
        pods.subscribe(self._changed)

    def write(self, namespace: str, size: int) -> None:
        """So many bytes are written there now; RESOURCE_EXHAUSTED where it is too early. `turn` waits instead."""
        if delay := self._written.take(namespace, size):
            kib = self._limits.stored_bytes_per_second / 1024
            raise later(f"more than {kib:g} KiB a second are to be stored for this tenant", delay)

    def room(self, namespace: str, name: str, size: int) -> None:
        """RESOURCE_EXHAUSTED where a Pod of so many bytes is too much beside the others."""
        pod = self._pods.get(namespace, name)
        if pod is None:
            self.schedulable(namespace)
        stored, old = self._of(namespace), pod or View(namespace, name, b"")
        bounds = [(stored.size - old.size, self._limits.pods_bytes, "Pods")]
        if pod is None or pod.pending:
            bounds.append((stored.pending - old.pending, self._limits.pending_pods_bytes, "Pods without a node"))
        for others, most, what in bounds:
            if others + size > most:
                raise _exceeded(f"{size} bytes, beside {what} of {others}: at most {most} together")

    def schedulable(self, namespace: str) -> None:
        """RESOURCE_EXHAUSTED where so many Pods have no node that no more are to be made."""
        if (pending := self._of(namespace).weight) >= self._limits.pending_pods:
            most = f"at most {self._limits.pending_pods}, where each term that selects Pods counts for four more"
            raise _exceeded(f"{pending} Pods of this tenant have no node: {most}")

    def _of(self, namespace: str) -> _Pods:
        return self._stored.get(namespace, _Pods())

    def _changed(self, _event: EventType, key: Key, old: View | None, new: View | None) -> None:
        stored = self._stored[key[0]] = self._of(key[0])
        for view, sign in ((old, -1), (new, 1)):
            if view is not None:
                stored.size += sign * view.size
                stored.pending += sign * view.pending
                stored.weight += sign * view.weight
        if stored == _Pods():
            del self._stored[key[0]]


def _exceeded(text: str) -> Refused:
    return Refused(Code.RESOURCE_EXHAUSTED, f"{EXCEEDED_QUOTA}: {text}")


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
    """The rules of all tenants, by the views of them that a gateway keeps and by what was just written here.

    Replicas that write at the same moment may go beyond it by as much as they write. `workloads` says how many there
    are in a namespace; rules times workloads are `pairs` at most.
    """

    def __init__(
        self,
        views: Store[View],
        *,
        workloads: Callable[[str], int],
        pairs: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._views, self._workloads, self._pairs = views, workloads, pairs
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
        self._own.deleted((namespace, name), "")

    def _rules(self, namespace: str) -> dict[str, Keys]:
        self._own.expire()
        names = {view.name for view in (*self._views.by_index(BY_NAMESPACE, namespace), *self._own.of(namespace))}
        views = {name: self._own.get((namespace, name)) for name in names}
        return {name: view.keys for name, view in views.items() if view is not None}
