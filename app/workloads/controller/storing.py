"""Limits the companions of one tenant's workloads: their bytes, the bytes written for them, and those without a node.

A ResourceQuota counts Pods, and a Pod may have 1.5 MiB. etcd keeps every state that was written until it is compacted,
minutes later; the API server, the scheduler and the gateway keep each Pod in memory. Pods of all tenants wait in one
queue of the scheduler: it binds at most 50 Pods a second, and writes as often why one has no node (its
`clientConnection.qps`); one change in a cluster can bring all Pods without a node back into the queue. No I/O.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from app.kube.rate import Rate
from app.workloads.companions.marks import Companion
from app.workloads.controller.places import Waiters
from app.workloads.model import ObjectKey, Problem, Waiting, tenant_name

ALL, PENDING = "companions/bytes", "companions/pending-bytes"
QUEUED, NUMBER, OF_HOST = "companions/queued", "companions/pending", "companions/pending-of-host"
"""The names of the bounds in `--tenant-quota`."""
DEFAULT_BOUNDS: Mapping[str, int] = {
    # 8 KiB for each of the 20,000 Pods that a tenant may have.
    ALL: 160 * 1024 * 1024,
    # The scheduler writes each Pod without a node again when there is another reason for it, every ten seconds at most.
    PENDING: 8 * 1024 * 1024,
    # Two seconds of the scheduler.
    QUEUED: 100,
    # Six seconds, for what has no node and may be looked at again.
    NUMBER: 300,
    # So that a DPU that is full leaves room for the companions on others.
    OF_HOST: 32,
}
_PER_SECOND = 256 * 1024
_BURST = 128 * 1024 * 1024
"""20,000 companions of common size at once. What is written in ten minutes fits into an etcd of 2 GiB beside the rest:
each state counts here once, and the kubelet writes about as much again."""
_TENANTS = 4096
_REMEMBERED = 300.0
"""Seconds in which a companion that was to be made is expected."""
_Group = tuple[str, str, str, str | None]
"""The namespaces of a tenant and of its companions ("" for those of both), a bound, and the host where it is for hosts.

Companions of the admin's rules have another namespace than their tenant: it cannot keep them from being made.
"""


class _Part(NamedTuple):
    """What one companion counts for. `weight` is 0 for one with a node.

    `queued`: the scheduler has not looked at it yet. False for one that is to be made says that it replaces another,
    which has to go first.
    """

    tenant: str
    namespace: str
    host: str | None
    size: int
    weight: int
    queued: bool

    def amounts(self) -> dict[str, int]:
        """By bound."""
        return {
            ALL: self.size,
            PENDING: self.size if self.weight else 0,
            QUEUED: int(self.queued),
            NUMBER: self.weight,
            OF_HOST: 0 if self.host is None else self.weight,
        }


class Storing:
    """A missing bound means no limit. What is being made counts until the watch has shown it.

    Calls `wake` with each workload whose obstacle is gone.
    """

    def __init__(
        self,
        bounds: Mapping[str, int],
        *,
        wake: Callable[[ObjectKey], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bounds = bounds
        self._counted: Counter[_Group] = Counter()
        self.waiters = Waiters(wake)
        self._clock = clock
        self._making: dict[ObjectKey, tuple[_Part, float]] = {}
        """What is to be made, and until when it is expected."""
        self.writes: Rate[str] = Rate(per_second=_PER_SECOND, burst=_BURST, names=_TENANTS, clock=clock)
        """The bytes written for each tenant."""

    def seen(self, key: ObjectKey, old: Companion | None, new: Companion | None) -> None:
        """The cache of companions has changed."""
        # The increase comes first, so that no workload is woken for nothing.
        for companion, sign in ((new, 1), (old, -1)):
            if companion is not None:
                weight = 0 if companion.bound else companion.weight
                self._count(
                    _Part(
                        companion.workload[0],
                        companion.namespace,
                        companion.host,
                        companion.size,
                        weight,
                        companion.queued,
                    ),
                    sign,
                )
        making = self._making.get(key)
        if making is not None and (making[0].queued or (new is not None and (old is None or old.uid != new.uid))):
            self._drop(key)

    def failed(self, key: ObjectKey) -> None:
        """The companion was not made: nothing was written."""
        if (part := self._drop(key)) is not None:
            self.writes.spend(part.tenant, -part.size)

    def expire(self) -> None:
        """Forget what was to be made and never came; wake more workloads where there is room.

        One that was woken before may have had no use for it.
        """
        now = self._clock()
        for key in [key for key, (_, until) in self._making.items() if until < now]:
            self._drop(key)
        for group in self.waiters:
            self.waiters.wake(group, self._room(group))

    def forget(self) -> None:
        """The API server that was to make them may have been replaced."""
        for key in list(self._making):
            self._drop(key)

    def obstacle(
        self, workload: ObjectKey, key: ObjectKey, size: int, *, host: str | None = None, weight: int = 1
    ) -> Problem | Waiting | None:
        """What keeps a companion of so many bytes from being made now; where nothing does, it counts from now on."""
        tenant, making = workload[0], self._making.get(key)
        if making is not None and not making[0].queued:
            # A successor is paid for, and counts as one without a node.
            if waiting := self.unscheduled(workload, key[0], host, bounds=(QUEUED,)):
                return waiting
            part, until = making
            self._making[key] = part._replace(queued=True), until
            self._count(_Part(tenant, key[0], host, 0, 0, queued=True), 1)
            return None
        self._drop(key)
        if waiting := self.unscheduled(workload, key[0], host):
            return waiting
        if text := self._beyond(ALL, tenant, size):
            return Problem("QuotaExceeded", f"the companions of {text}", of_workload=True)
        if text := self._beyond(PENDING, tenant, size):
            return Waiting("Unscheduled", f"the companions without a node of {text}")
        if throttled := self.throttled(tenant, size):
            return throttled
        self._make(key, _Part(tenant, key[0], host, size, weight, queued=True))
        return None

    def replacement(self, companion: Companion, size: int, *, weight: int = 1) -> Waiting | None:
        """What keeps this companion from being replaced by one of so many bytes now: until then it runs on.

        Where nothing does, both writes count from now on, and nothing keeps the successor from being made.
        """
        key, workload, tenant = companion.key, companion.workload, companion.workload[0]
        self._drop(key)
        if companion.bound:
            if waiting := self.unscheduled(workload, companion.namespace, companion.host, bounds=(NUMBER, OF_HOST)):
                return waiting
            if text := self._beyond(PENDING, tenant, size):
                return Waiting("Unscheduled", f"the companions without a node of {text}")
        if throttled := self.throttled(tenant, companion.size + size):
            return throttled
        self._make(key, _Part(tenant, key[0], companion.host, size, weight, queued=False))
        return None

    def unscheduled(
        self,
        workload: ObjectKey,
        namespace: str,
        host: str | None,
        *,
        bounds: Sequence[str] = (QUEUED, NUMBER, OF_HOST),
    ) -> Waiting | None:
        """Which of these bounds keeps the workload from getting a companion there now; it is woken when it may."""
        for bound in bounds:
            if bound in self._bounds and (bound != OF_HOST or host is not None):
                group = _group(bound, namespace, workload[0], host)
                if self._room(group) <= 0:
                    self.waiters.add(group, workload)
                    return _unscheduled(group)
        return None

    def throttled(self, tenant: str, size: int) -> Waiting | None:
        """Why so many bytes may not be written now for this tenant; where they may, they count as written."""
        if not self.writes.take(tenant, size):
            return None
        rate = f"at most {_PER_SECOND // 1024} KiB a second"
        return Waiting("Throttled", f"the controller writes {rate} for long for tenant {tenant_name(tenant)}")

    def _make(self, key: ObjectKey, part: _Part) -> None:
        self._making[key] = part, self._clock() + _REMEMBERED
        self._count(part, 1)

    def _drop(self, key: ObjectKey) -> _Part | None:
        part, _ = self._making.pop(key, (None, 0.0))
        if part is not None:
            self._count(part, -1)
        return part

    def _count(self, part: _Part, sign: int) -> None:
        """Count a companion (1), or no longer (-1)."""
        for bound, amount in part.amounts().items():
            if amount and bound in self._bounds:
                group = _group(bound, part.namespace, part.tenant, part.host)
                self._counted[group] += sign * amount
                if not self._counted[group]:
                    del self._counted[group]
                if sign < 0 and bound not in (ALL, PENDING):
                    self.waiters.wake(group, self._room(group))

    def _room(self, group: _Group) -> int:
        return self._bounds[group[2]] - self._counted[group]

    def _beyond(self, bound: str, tenant: str, size: int) -> str:
        """What is too much with so many bytes more; "" where nothing is."""
        stored, most = self._counted[tenant, "", bound, None], self._bounds.get(bound)
        if most is None or stored + size <= most:
            return ""
        return (
            f"tenant {tenant_name(tenant)} have {stored} bytes, and this one {size}: at most {most} "
            f"together; the cloud admin can raise --tenant-quota {bound}"
        )


def _group(bound: str, namespace: str, tenant: str, host: str | None) -> _Group:
    if bound in (ALL, PENDING):
        return tenant, "", bound, None
    return tenant, namespace, bound, host if bound == OF_HOST else None


def _unscheduled(group: _Group) -> Waiting:
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
