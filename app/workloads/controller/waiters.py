"""Workloads that wait for room, the oldest first. No I/O."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from app.workloads.model import ObjectKey

Group = tuple[Any, ...]
"""What has room or not; the first part is the namespace of the tenant whose workloads wait."""


class Waiters:
    """Calls `wake` with each workload that may find room now; it no longer waits in that group then."""

    def __init__(self, wake: Callable[[ObjectKey], None]) -> None:
        self._wake = wake
        self._waiting: dict[str, dict[Group, dict[ObjectKey, None]]] = {}

    def __contains__(self, workload: ObjectKey) -> bool:
        return any(workload in waiting for waiting in self._waiting.get(workload[0], {}).values())

    def __iter__(self) -> Iterator[Group]:
        """The groups in which workloads wait."""
        return iter([group for groups in self._waiting.values() for group in groups])

    def add(self, group: Group, workload: ObjectKey) -> None:
        self._waiting.setdefault(group[0], {}).setdefault(group, {})[workload] = None

    def discard(self, group: Group, workload: ObjectKey) -> None:
        groups = self._waiting.get(group[0], {})
        waiting = groups.get(group)
        if waiting is None:
            return
        waiting.pop(workload, None)
        if not waiting:
            del groups[group]
        if not groups:
            del self._waiting[group[0]]

    def wake(self, group: Group, room: int) -> None:
        """Wake as many workloads as there is room for."""
        waiting = self._waiting.get(group[0], {}).get(group, {})
        for workload in list(itertools.islice(waiting, max(0, room))):
            self.discard(group, workload)
            self._wake(workload)
