"""Limits what the companions of one tenant's workloads store in the cluster: bytes, and the rate of written bytes.

A ResourceQuota counts Pods, and a Pod may have 1.5 MiB. etcd keeps every state that was written until it is compacted,
minutes later; the API server, the scheduler and the gateway keep each Pod in memory. No I/O.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.kube.rate import Rate
from app.workloads.companions.marks import Companion
from app.workloads.controller.pending import DEFAULT_NUMBERS, NUMBER, OF_HOST, QUEUED, Pending
from app.workloads.model import ObjectKey, Problem, Waiting, tenant_name

ALL, PENDING = "companions/bytes", "companions/pending-bytes"
"""The names of the bounds in `--tenant-quota`."""
DEFAULT_BOUNDS: Mapping[str, int] = {
    # 8 KiB for each of the 20,000 Pods that a tenant may have.
    ALL: 160 * 1024 * 1024,
    # The scheduler writes each Pod without a node again when there is another reason for it, every ten seconds at most.
    PENDING: 8 * 1024 * 1024,
    **DEFAULT_NUMBERS,
}
_PER_SECOND = 256 * 1024
_BURST = 128 * 1024 * 1024
"""20,000 companions of common size at once. What is written in ten minutes fits into an etcd of 2 GiB beside the rest:
each state counts here once, and the kubelet writes about as much again."""
_TENANTS = 4096
_REMEMBERED = 300.0
"""Seconds in which a companion that was to be made is expected."""


@dataclass(slots=True)
class _Making:
    """`replacing`: its predecessor has to go first, so that it is not in the scheduler's queue yet."""

    tenant: str
    host: str | None
    size: int
    weight: int
    until: float
    replacing: bool


class Storing:
    """A missing bound means no limit. What is being made counts until the watch has shown it, also for `pending`."""

    def __init__(
        self,
        bounds: Mapping[str, int],
        *,
        wake: Callable[[ObjectKey], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bounds = bounds
        self.pending = Pending(bounds, wake=wake)
        self._stored: Counter[tuple[str, str]] = Counter()
        self._clock = clock
        self._making: dict[ObjectKey, _Making] = {}
        self._writes: Rate[str] = Rate(per_second=_PER_SECOND, burst=_BURST, names=_TENANTS, clock=clock)

    def seen(self, key: ObjectKey, old: Companion | None, new: Companion | None) -> None:
        """The cache of companions has changed."""
        making = self._making.get(key)
        # The increase comes first, so that no workload is woken for nothing.
        for one, sign in ((new, 1), (old, -1)):
            if one is not None:
                tenant = one.workload[0]
                self._add(tenant, sign * one.size, pending=not one.bound)
                self.pending.count(
                    one.namespace, tenant, one.host, sign, weight=0 if one.bound else one.weight, queued=one.queued
                )
        if making is not None and (not making.replacing or (new is not None and (old is None or old.uid != new.uid))):
            self._drop(key)

    def failed(self, key: ObjectKey) -> None:
        """The companion was not made: nothing was written."""
        if (making := self._drop(key)) is not None:
            self._writes.spend(making.tenant, -making.size)

    def expire(self) -> None:
        """Forget what was to be made and never came."""
        now = self._clock()
        for key in [key for key, making in self._making.items() if making.until < now]:
            self._drop(key)
        self.pending.look_again()

    def forget(self) -> None:
        """The API server that was to make them may have been replaced."""
        for key in list(self._making):
            self._drop(key)

    def obstacle(
        self, workload: ObjectKey, key: ObjectKey, size: int, *, host: str | None = None, weight: int = 1
    ) -> Problem | Waiting | None:
        """What keeps a companion of so many bytes from being made now; where nothing does, it counts from now on."""
        tenant, making = workload[0], self._making.get(key)
        if making is not None and making.replacing:
            # A successor is paid for, and counts as one without a node.
            if waiting := self.pending.obstacle(workload, key[0], host, bounds=(QUEUED,)):
                return waiting
            making.replacing = False
            self.pending.count(key[0], tenant, host, 1, queued=True)
            return None
        self._drop(key)
        if waiting := self.pending.obstacle(workload, key[0], host):
            return waiting
        if text := self._beyond(ALL, tenant, size):
            return Problem("QuotaExceeded", f"the companions of {text}", of_workload=True)
        if text := self._beyond(PENDING, tenant, size):
            return Waiting("Unscheduled", f"the companions without a node of {text}")
        if (throttled := self.throttled(tenant, size)) is not None:
            return throttled
        self._make(key, _Making(tenant, host, size, weight, self._clock() + _REMEMBERED, replacing=False))
        return None

    def replacement(self, companion: Companion, size: int, *, weight: int = 1) -> Waiting | None:
        """What keeps this companion from being replaced by one of so many bytes now: until then it runs on.

        Where nothing does, both writes count from now on, and nothing keeps the successor from being made.
        """
        tenant = companion.workload[0]
        self._drop(companion.key)
        if companion.bound:
            where = companion.workload, companion.namespace, companion.host
            if waiting := self.pending.obstacle(*where, bounds=(NUMBER, OF_HOST)):
                return waiting
            if text := self._beyond(PENDING, tenant, size):
                return Waiting("Unscheduled", f"the companions without a node of {text}")
        if (throttled := self.throttled(tenant, companion.size + size)) is not None:
            return throttled
        until = self._clock() + _REMEMBERED
        self._make(companion.key, _Making(tenant, companion.host, size, weight, until, replacing=True))
        return None

    def throttled(self, tenant: str, size: int) -> Waiting | None:
        """Why so many bytes may not be written now for this tenant; where they may, they count as written."""
        if not self.pause(tenant, size):
            return None
        rate = f"at most {_PER_SECOND // 1024} KiB a second"
        return Waiting("Throttled", f"the controller writes {rate} for long for tenant {tenant_name(tenant)}")

    def pause(self, tenant: str, size: int) -> float:
        """Seconds until so many bytes may be written for this tenant; 0 for now, and then they count as written."""
        return self._writes.take(tenant, size)

    def wrote(self, tenant: str, size: int) -> None:
        """So many bytes were written, which could not wait."""
        self._writes.spend(tenant, size)

    def _make(self, key: ObjectKey, making: _Making) -> None:
        self._making[key] = making
        self._count(key, making, 1)

    def _drop(self, key: ObjectKey) -> _Making | None:
        making = self._making.pop(key, None)
        if making is not None:
            self._count(key, making, -1)
        return making

    def _count(self, key: ObjectKey, making: _Making, sign: int) -> None:
        tenant, queued = making.tenant, not making.replacing
        self._add(tenant, sign * making.size, pending=True)
        self.pending.count(key[0], tenant, making.host, sign, weight=making.weight, queued=queued)

    def _beyond(self, bound: str, tenant: str, size: int) -> str:
        """What is too much with so many bytes more; "" where nothing is."""
        stored, most = self._stored[bound, tenant], self._bounds.get(bound)
        if most is None or stored + size <= most:
            return ""
        return (
            f"tenant {tenant_name(tenant)} have {stored} bytes, and this one {size}: at most {most} "
            f"together; the cloud admin can raise --tenant-quota {bound}"
        )

    def _add(self, tenant: str, size: int, *, pending: bool) -> None:
        for bound in (ALL, PENDING) if pending else (ALL,):
            self._stored[bound, tenant] += size
            if not self._stored[bound, tenant]:
                del self._stored[bound, tenant]
