"""What the companions of one tenant cost the cluster: bytes at a time, bytes written in time, turns of the scheduler.

A ResourceQuota counts Pods, and a Pod may have 1.5 MiB. etcd keeps every state that was written until it is compacted,
minutes later; the API server, the scheduler and the gateway keep each Pod in memory. Pods of all tenants wait in one
queue of the scheduler, which writes at most 50 times a second which of them have no node. No I/O.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.kube.rate import Rate
from app.workloads.companions.marks import Companion
from app.workloads.companions.plan import Problem, Waiting
from app.workloads.model import TENANT_NAMESPACE_PREFIX, ObjectKey

ALL, PENDING, QUEUED = "companions/bytes", "companions/pending-bytes", "companions/queued"
"""The names of the bounds in `--tenant-quota`."""
DEFAULT_BOUNDS: Mapping[str, int] = {
    # 8 KiB for each of the 20,000 Pods that a tenant may have.
    ALL: 160 * 1024 * 1024,
    # The scheduler writes each Pod without a node again when there is another reason for it, every ten seconds at most.
    PENDING: 8 * 1024 * 1024,
    # Two seconds of the scheduler, where it finds no node for any of them.
    QUEUED: 100,
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
    size: int
    until: float
    replacing: bool


class Storing:
    """A bound that is missing is none. What is being made counts until the watch has shown it.

    `wake` is told a workload that was `crowded` out and may have its companions made now.
    """

    def __init__(
        self,
        bounds: Mapping[str, int],
        *,
        wake: Callable[[ObjectKey], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bounds = bounds
        self._wake = wake
        # By tenant, the oldest first.
        self._crowded: dict[str, dict[ObjectKey, None]] = {}
        self._stored: Counter[tuple[str, str]] = Counter()
        self._clock = clock
        self._making: dict[ObjectKey, _Making] = {}
        self._writes: Rate[str] = Rate(per_second=_PER_SECOND, burst=_BURST, names=_TENANTS, clock=clock)

    def seen(self, key: ObjectKey, old: Companion | None, new: Companion | None) -> None:
        """The cache of companions has changed."""
        making = self._making.get(key)
        if making is not None and (not making.replacing or (new is not None and (old is None or old.uid != new.uid))):
            self._drop(key)
        for one, sign in ((old, -1), (new, 1)):
            if one is not None:
                self._add(one.workload[0], sign, one.size, pending=not one.bound, queued=one.queued)
        if old is not None and old.queued:
            self._let_in(old.workload[0])

    def failed(self, key: ObjectKey) -> None:
        """The companion was not made: nothing was written."""
        if (making := self._drop(key)) is not None:
            self._writes.spend(making.tenant, -making.size)
            self._let_in(making.tenant)

    def expire(self) -> None:
        """Forget what was to be made and never came."""
        now = self._clock()
        for key in [key for key, making in self._making.items() if making.until < now]:
            self._drop(key)
        for tenant in list(self._crowded):
            self._let_in(tenant)

    def forget(self) -> None:
        """The API server that was to make them may have been replaced."""
        for key in list(self._making):
            self._drop(key)
        for tenant in list(self._crowded):
            self._let_in(tenant)

    def is_crowded_out(self, workload: ObjectKey) -> bool:
        """Whether it was `crowded`, and has not been woken since."""
        return workload in self._crowded.get(workload[0], ())

    def crowded(self, workload: ObjectKey) -> bool:
        """Whether so many companions of the tenant wait for the scheduler that none is to be made now for another."""
        tenant = workload[0]
        if self._room(tenant) > 0:
            return False
        self._crowded.setdefault(tenant, {})[workload] = None
        return True

    def obstacle(self, tenant: str, key: ObjectKey, size: int) -> Problem | Waiting | None:
        """What keeps a companion of so many bytes from being made now; where nothing does, it counts from now on."""
        if (making := self._making.get(key)) is not None and making.replacing:
            self._drop(key)
            self._make(tenant, key, making.size, replacing=False)
            return None
        self._drop(key)
        if text := self._beyond(ALL, tenant, size):
            return Problem("QuotaExceeded", f"the companions of {text}", of_workload=True)
        if text := self._beyond(PENDING, tenant, size):
            return Waiting("Unscheduled", f"the companions without a node of {text}")
        if (throttled := self.throttled(tenant, size)) is not None:
            return throttled
        self._make(tenant, key, size, replacing=False)
        return None

    def replacement(self, companion: Companion, size: int) -> Waiting | None:
        """What keeps this companion from being replaced by one of so many bytes now: until then it runs on.

        Where nothing does, both writes count from now on, and nothing keeps the successor from being made.
        """
        tenant = companion.workload[0]
        self._drop(companion.key)
        if companion.bound and (text := self._beyond(PENDING, tenant, size)):
            return Waiting("Unscheduled", f"the companions without a node of {text}")
        if (throttled := self.throttled(tenant, companion.size + size)) is not None:
            return throttled
        self._make(tenant, companion.key, size, replacing=True)
        return None

    def throttled(self, tenant: str, size: int) -> Waiting | None:
        """Why so many bytes may not be written now for this tenant; where they may, they count as written."""
        if not self.pause(tenant, size):
            return None
        name = tenant.removeprefix(TENANT_NAMESPACE_PREFIX)
        text = f"the controller writes at most {_PER_SECOND // 1024} KiB a second for long for tenant {name}"
        return Waiting("Throttled", text)

    def pause(self, tenant: str, size: int) -> float:
        """Seconds until so many bytes may be written for this tenant; 0 for now, and then they count as written."""
        return self._writes.take(tenant, size)

    def wrote(self, tenant: str, size: int) -> None:
        """So many bytes were written, which could not wait."""
        self._writes.spend(tenant, size)

    def _make(self, tenant: str, key: ObjectKey, size: int, *, replacing: bool) -> None:
        self._making[key] = _Making(tenant, size, self._clock() + _REMEMBERED, replacing)
        self._add(tenant, 1, size, pending=True, queued=not replacing)

    def _drop(self, key: ObjectKey) -> _Making | None:
        making = self._making.pop(key, None)
        if making is not None:
            self._add(making.tenant, -1, making.size, pending=True, queued=not making.replacing)
        return making

    def _room(self, tenant: str) -> int:
        """How many more companions may wait for the scheduler."""
        return self._bounds.get(QUEUED, sys.maxsize) - self._stored[QUEUED, tenant]

    def _let_in(self, tenant: str) -> None:
        """Wake one for each that may be made."""
        crowded = self._crowded.get(tenant, {})
        for workload in list(itertools.islice(crowded, max(0, self._room(tenant)))):
            del crowded[workload]
            self._wake(workload)
        if not crowded:
            self._crowded.pop(tenant, None)

    def _beyond(self, bound: str, tenant: str, size: int) -> str:
        """What is too much with so many bytes more; "" where nothing is."""
        stored, most = self._stored[bound, tenant], self._bounds.get(bound)
        if most is None or stored + size <= most:
            return ""
        name = tenant.removeprefix(TENANT_NAMESPACE_PREFIX)
        return (
            f"tenant {name} have {stored} bytes, and this one {size}: at most {most} together; the cloud admin can "
            f"raise --tenant-quota {bound}"
        )

    def _add(self, tenant: str, sign: int, size: int, *, pending: bool, queued: bool) -> None:
        for bound, amount in ((ALL, size), (PENDING, size * pending), (QUEUED, queued)):
            self._stored[bound, tenant] += sign * amount
            if not self._stored[bound, tenant]:
                del self._stored[bound, tenant]
