"""What the companions of one tenant's workloads cost the cluster to store: bytes at a time, and bytes written in time.

A ResourceQuota counts Pods, and a Pod may have 1.5 MiB. etcd keeps every state that was written until it is compacted,
minutes later; the API server, the scheduler and the gateway keep each Pod in memory. No I/O.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from app.kube.rate import Rate
from app.workloads.companions.marks import Companion
from app.workloads.companions.plan import Problem, Waiting
from app.workloads.model import TENANT_NAMESPACE_PREFIX, ObjectKey

COMPANION_BYTES = "companions/bytes"
"""The name of the bound in `--tenant-quota`."""
DEFAULT_BYTES = 160 * 1024 * 1024
"""8 KiB for each of the 20,000 Pods that a tenant may have."""
_PER_SECOND = 256 * 1024
_BURST = 128 * 1024 * 1024
"""20,000 companions of common size at once. What is written in ten minutes fits into an etcd of 2 GiB beside the rest:
each state counts here once, and the kubelet writes about as much again."""
_TENANTS = 4096


class Storing:
    """`bound` is in bytes, None for none. What is being made counts until the watch has shown it."""

    def __init__(self, bound: int | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bound = bound
        self._stored: Counter[str] = Counter()
        self._making: dict[ObjectKey, tuple[str, int]] = {}
        self._writes: Rate[str] = Rate(per_second=_PER_SECOND, burst=_BURST, names=_TENANTS, clock=clock)

    def seen(self, key: ObjectKey, old: Companion | None, new: Companion | None) -> None:
        """The cache of companions has changed."""
        self._drop(key)
        for one, sign in ((old, -1), (new, 1)):
            if one is not None:
                self._add(one.workload[0], sign * one.size)

    def failed(self, key: ObjectKey) -> None:
        """The companion was not made: nothing was written."""
        if (making := self._drop(key)) is not None:
            self._writes.spend(making[0], -making[1])

    def forget(self) -> None:
        """The API server that was to make them may have been replaced."""
        for key in list(self._making):
            self._drop(key)

    def obstacle(self, tenant: str, key: ObjectKey, size: int) -> Problem | Waiting | None:
        """What keeps a companion of so many bytes from being made now; where nothing does, it counts from now on."""
        self._drop(key)
        name, stored = tenant.removeprefix(TENANT_NAMESPACE_PREFIX), self._stored[tenant]
        if self._bound is not None and stored + size > self._bound:
            text = (
                f"the companions of tenant {name} have {stored} bytes, and this one {size}: at most {self._bound} "
                f"together; the cloud admin can raise --tenant-quota {COMPANION_BYTES}"
            )
            return Problem("QuotaExceeded", text, of_workload=True)
        if (throttled := self.throttled(tenant, size)) is not None:
            return throttled
        self._making[key] = tenant, size
        self._add(tenant, size)
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

    def _drop(self, key: ObjectKey) -> tuple[str, int] | None:
        making = self._making.pop(key, None)
        if making is not None:
            self._add(making[0], -making[1])
        return making

    def _add(self, tenant: str, size: int) -> None:
        self._stored[tenant] += size
        if not self._stored[tenant]:
            del self._stored[tenant]
