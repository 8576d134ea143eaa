"""Limits how many companions of one tenant may be without a node, and keeps the workloads that wait for it. No I/O.

Pods of all tenants wait in one queue of the scheduler. It binds at most 50 Pods a second, and writes as often why one
has no node (its `clientConnection.qps`); one change in a cluster can bring all Pods without a node back into the queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping

from app.workloads.controller.waiters import Waiters
from app.workloads.model import ObjectKey, Waiting, tenant_name

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
"""The namespaces of a tenant and of its companions, a bound, and the host where the bound is one for hosts.

Companions of the admin's rules have another namespace than their tenant: it cannot keep them from being made.
"""


class Pending:
    """A missing bound means no limit. Calls `wake` with each workload whose obstacle is gone."""

    def __init__(self, bounds: Mapping[str, int], *, wake: Callable[[ObjectKey], None]) -> None:
        self._bounds = bounds
        self._counted: Counter[_Group] = Counter()
        self.waiters = Waiters(wake)

    def count(self, namespace: str, tenant: str, host: str | None, sign: int, *, weight: int = 0, queued: bool) -> None:
        """Add (1) or remove (-1) a companion without a node; one that is `queued` has had no look of the scheduler."""
        for group in self._groups(namespace, tenant, host):
            if by := sign * (queued if group[2] == QUEUED else weight):
                self._counted[group] += by
                if not self._counted[group]:
                    del self._counted[group]
                if by < 0:
                    self.waiters.wake(group, self._room(group))

    def obstacle(
        self, workload: ObjectKey, namespace: str, host: str | None, *, bounds: Container[str] = DEFAULT_NUMBERS
    ) -> Waiting | None:
        """Which of these bounds keeps the workload from getting a companion there now; it is woken when it may."""
        for group in self._groups(namespace, workload[0], host):
            if group[2] in bounds and self._room(group) <= 0:
                self.waiters.add(group, workload)
                return _obstacle(group)
        return None

    def look_again(self) -> None:
        """Wake more workloads where there is room: one that was woken before may have had no use for it."""
        for group in self.waiters:
            self.waiters.wake(group, self._room(group))

    def _groups(self, namespace: str, tenant: str, host: str | None) -> Iterator[_Group]:
        for bound in (QUEUED, NUMBER, OF_HOST):
            if bound in self._bounds and (bound != OF_HOST or host is not None):
                yield tenant, namespace, bound, host if bound == OF_HOST else None

    def _room(self, group: _Group) -> int:
        return self._bounds[group[2]] - self._counted[group]


def _obstacle(group: _Group) -> Waiting:
    tenant, namespace, bound, host = group
    if bound == QUEUED:
        return Waiting("Queued", "the scheduler has yet to look at other companions of the tenant")
    where = f" for host {host}" if bound == OF_HOST else ""
    where += f" in {namespace}" if namespace != tenant else ""
    return Waiting(
        "Unscheduled",
        f"tenant {tenant_name(tenant)} has as many companions without a node{where} as it may; the cloud admin can "
        f"raise --tenant-quota {bound}",
    )
