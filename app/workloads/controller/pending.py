"""Limits how many companions of one tenant may be without a node, and keeps the workloads that wait for it. No I/O.

Pods of all tenants wait in one queue of the scheduler. It binds at most 50 Pods a second, and writes as often why one
has no node (its `clientConnection.qps`); one change in a cluster can bring all Pods without a node back into the queue.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping

from app.workloads.companions.plan import Waiting
from app.workloads.model import TENANT_NAMESPACE_PREFIX, ObjectKey

QUEUED, NUMBER, OF_HOST = "companions/queued", "companions/pending", "companions/pending-of-host"
"""The names of the bounds in `--tenant-quota`."""
DEFAULT_NUMBERS: Mapping[str, int] = {
    # Two seconds of the scheduler.
    QUEUED: 100,
    # Six seconds, for what has no node and may be looked at again.
    NUMBER: 300,
    # So that a DPU that is full leaves room for the companions on others.
    OF_HOST: 32,
}
_Group = tuple[str, str, str, str | None]
"""A bound, the namespaces of the companions and of their tenant, and the host where the bound is one for hosts.

Companions of the admin's rules have another namespace than their tenant: it cannot keep them from being made.
"""


class Pending:
    """A missing bound means no limit. Calls `wake` with each workload whose obstacle is gone."""

    def __init__(self, bounds: Mapping[str, int], *, wake: Callable[[ObjectKey], None]) -> None:
        self._bounds = bounds
        self._wake = wake
        self._counted: Counter[_Group] = Counter()
        # The oldest first.
        self._waiting: dict[_Group, dict[ObjectKey, None]] = {}
        self._asleep: set[ObjectKey] = set()

    def count(self, namespace: str, tenant: str, host: str | None, sign: int, *, weight: int = 0, queued: bool) -> None:
        """Add (1) or remove (-1) a companion without a node; one that is `queued` has had no look of the scheduler."""
        for group in self._groups(namespace, tenant, host):
            if by := sign * (queued if group[0] == QUEUED else weight):
                self._counted[group] += by
                if not self._counted[group]:
                    del self._counted[group]
                if by < 0:
                    self._let_in(group)

    def obstacle(
        self, workload: ObjectKey, namespace: str, host: str | None, *, bounds: Container[str] = DEFAULT_NUMBERS
    ) -> Waiting | None:
        """Which of these bounds keeps the workload from getting a companion there now; it is woken when it may."""
        for group in self._groups(namespace, workload[0], host):
            if group[0] in bounds and self._room(group) <= 0:
                self._waiting.setdefault(group, {})[workload] = None
                self._asleep.add(workload)
                return _obstacle(group)
        return None

    def waits(self, workload: ObjectKey) -> bool:
        """Whether it met an obstacle, and has not been woken since."""
        return workload in self._asleep

    def look_again(self) -> None:
        """Wake more workloads where there is room: one that was woken before may have had no use for it."""
        for group in list(self._waiting):
            self._let_in(group)

    def _groups(self, namespace: str, tenant: str, host: str | None) -> Iterator[_Group]:
        for bound in (QUEUED, NUMBER, OF_HOST):
            if bound in self._bounds and (bound != OF_HOST or host is not None):
                yield bound, namespace, tenant, host if bound == OF_HOST else None

    def _room(self, group: _Group) -> int:
        return self._bounds[group[0]] - self._counted[group]

    def _let_in(self, group: _Group) -> None:
        waiting = self._waiting.get(group, {})
        for workload in list(itertools.islice(waiting, max(0, self._room(group)))):
            del waiting[workload]
            self._asleep.discard(workload)
            self._wake(workload)
        if not waiting:
            self._waiting.pop(group, None)


def _obstacle(group: _Group) -> Waiting:
    bound, namespace, tenant, host = group
    if bound == QUEUED:
        return Waiting("Queued", "the scheduler has yet to look at other companions of the tenant")
    where = f" for host {host}" if bound == OF_HOST else ""
    name = tenant.removeprefix(TENANT_NAMESPACE_PREFIX)
    where += f" in {namespace}" if namespace != tenant else ""
    return Waiting(
        "Unscheduled",
        f"tenant {name} has as many companions without a node{where} as it may; the cloud admin can raise "
        f"--tenant-quota {bound}",
    )
