"""Limits the number of companions of the cloud admin's rules for one tenant's workloads, with a bound for each policy.

They are outside of the tenant's namespace, so that no ResourceQuota of a tenant counts them. What exists is counted
from the companions' cache. Beside that a workload holds the places of companions that are being made or replaced.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, get_args

from app.workloads.companions.marks import Companion, policy_of
from app.workloads.model import ObjectKey, Policy, tenant_name

COMPANIONS = "companions/"
"""What the name of a bound begins with, in `--tenant-quota`; the policy follows."""
_POLICIES: tuple[Policy, ...] = get_args(Policy)
DEFAULT_PLACES: Mapping[str, int] = {
    # As many as a kubelet runs on one node by default: these companions are on any node.
    f"{COMPANIONS}Any": 110,
    # As many as there may be Pods in the tenant's namespace: these are on DPUs of the tenant, as its own are.
    f"{COMPANIONS}SameNode": 20_000,
}
Group = tuple[Any, ...]
"""What has room or not; the first part is the namespace of the tenant whose workloads wait."""
_Group = tuple[str, Policy]
"""The namespace of a tenant, and a policy."""


class Waiters:
    """Calls `wake` with each workload that may find room now; it no longer waits in that group then."""

    def __init__(self, wake: Callable[[ObjectKey], None]) -> None:
        self._wake = wake
        self._waiting: dict[str, dict[Group, OrderedDict[ObjectKey, None]]] = {}

    def __contains__(self, workload: ObjectKey) -> bool:
        return any(workload in waiting for waiting in self._waiting.get(workload[0], {}).values())

    def __iter__(self) -> Iterator[Group]:
        """The groups in which workloads wait."""
        return iter([group for groups in self._waiting.values() for group in groups])

    def add(self, group: Group, workload: ObjectKey) -> None:
        self._waiting.setdefault(group[0], {}).setdefault(group, OrderedDict())[workload] = None

    def discard(self, group: Group, workload: ObjectKey) -> None:
        groups = self._waiting.get(group[0], {})
        waiting = groups.get(group)
        if waiting is not None:
            waiting.pop(workload, None)
        if not waiting:
            groups.pop(group, None)
        if not groups:
            self._waiting.pop(group[0], None)

    def wake(self, group: Group, room: int) -> None:
        waiting = self._waiting.get(group[0], {}).get(group, ())
        for workload in list(itertools.islice(waiting, max(0, room))):
            self.discard(group, workload)
            self._wake(workload)


class Places:
    """`cached` is what the watch has shown; `wake` is called with a workload that may get a place now.

    A policy without a bound is not counted.
    """

    def __init__(
        self,
        quota: Mapping[str, int],
        *,
        cached: Callable[[ObjectKey], Companion | None],
        wake: Callable[[ObjectKey], None],
    ) -> None:
        self._bounds = {
            policy: quota[f"{COMPANIONS}{policy}"] for policy in _POLICIES if f"{COMPANIONS}{policy}" in quota
        }
        self._cached, self._waiters = cached, Waiters(wake)
        self._taken: dict[_Group, set[ObjectKey]] = {}
        self._held: dict[ObjectKey, dict[ObjectKey, _Group]] = {}

    def shortage(self, tenant: str, policy: Policy, namespace: str) -> str:
        """Why the tenant of this namespace gets no more companions in the other one."""
        taken = len(self._taken.get((tenant, policy), ()))
        return (
            f"tenant {tenant_name(tenant)} has {taken} of {self._bounds[policy]} companions in {namespace} "
            f"by rules with dpuSelectionPolicy {policy}; the cloud admin can raise --tenant-quota {COMPANIONS}{policy}"
        )

    def seen(self, key: ObjectKey, old: Companion | None, new: Companion | None) -> None:
        """The cache of companions has changed."""
        before, after = self._group(old), self._group(new)
        if new is not None and after is not None and after != before:
            self._taken.setdefault(after, set()).add(key)
            self._drop(new.workload, key)
        if old is not None and before is not None:
            self._free(old.workload, key, before)

    def take(self, workload: ObjectKey, key: ObjectKey, policy: Policy) -> bool:
        """Whether the companion has a place; where it has none, its workload is woken when one is free."""
        if policy not in self._bounds:
            return True
        group = (workload[0], policy)
        taken = self._taken.get(group, set())
        if key not in taken and len(taken) >= self._bounds[policy]:
            self._waiters.add(group, workload)
            return False
        self._taken.setdefault(group, taken).add(key)
        self._held.setdefault(workload, {})[key] = group
        return True

    def settle(self, workload: ObjectKey, *, holds: Container[ObjectKey], waits: Container[Policy]) -> None:
        """A reconcile of the workload has ended: no other companions than these hold places, or wait for one."""
        for key, group in list(self._held.get(workload, {}).items()):
            if key not in holds:
                self._drop(workload, key)
                self._free(workload, key, group)
        for policy in self._bounds:
            group = (workload[0], policy)
            if policy not in waits:
                self._waiters.discard(group, workload)
            # A workload that was woken may have had no use for the place.
            self._next(group)

    def _group(self, companion: Companion | None) -> _Group | None:
        if companion is None or not companion.of_admin or (policy := policy_of(companion.host)) not in self._bounds:
            return None
        return companion.workload[0], policy

    def _free(self, workload: ObjectKey, key: ObjectKey, group: _Group) -> None:
        if self._held.get(workload, {}).get(key) == group or self._group(self._cached(key)) == group:
            return  # still held, or there
        self._taken[group].discard(key)
        self._next(group)
        if not self._taken[group]:
            del self._taken[group]

    def _next(self, group: _Group) -> None:
        self._waiters.wake(group, min(1, self._bounds[group[1]] - len(self._taken.get(group, ()))))

    def _drop(self, workload: ObjectKey, key: ObjectKey) -> None:
        held = self._held.get(workload)
        if held is not None and held.pop(key, None) is not None and not held:
            del self._held[workload]
