"""Limits what one tenant stores in the API server: the rate of written bytes, and the bytes and number of its Pods.

A ResourceQuota only counts objects. etcd keeps every written state until compaction, minutes later. Pods of all tenants
wait in one queue of the scheduler. No I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import EXCEEDED_QUOTA
from app.kube.rate import Rate
from app.kube.store import EventType, Key, Store
from app.tenancy.gateway.failures import Code, Refused, later
from app.tenancy.gateway.options import Limits
from app.tenancy.gateway.views import View


@dataclass(slots=True)
class _Pods:
    """What the Pods of one namespace have together; the names are those of `View`."""

    size: int = 0
    pending: int = 0
    weight: int = 0


class Storing:
    """Judged by what the cache of the resource service's Pods shows: what is on its way comes on top."""

    def __init__(self, limits: Limits, pods: Store[View]) -> None:
        self._limits = limits
        self._pods = pods
        self._stored: dict[str, _Pods] = {}
        self._written: Rate[str] = Rate(per_second=limits.stored_bytes_per_second, burst=limits.stored_bytes_burst)
        pods.subscribe(self._changed)

    async def turn(self, namespace: str, size: int) -> None:
        """Return when so many bytes may be written there, which then count as written."""
        await self._written.turn(namespace, size)

    def write(self, namespace: str, size: int) -> None:
        """So many bytes are written there now; RESOURCE_EXHAUSTED where it is too early."""
        if delay := self._written.take(namespace, size):
            kib = self._limits.stored_bytes_per_second / 1024
            raise later(f"more than {kib:g} KiB a second are to be stored for this tenant", delay)

    def room(self, namespace: str, name: str, size: int) -> None:
        """RESOURCE_EXHAUSTED where a Pod of so many bytes is too much beside the others."""
        known = self._pods.get(namespace, name)
        if known is None:
            self.schedulable(namespace)
        stored = self._of(namespace)
        self._fits(stored.size - (known.size if known else 0), size, self._limits.pods_bytes, "Pods")
        if known is None or known.pending:
            others = stored.pending - (known.pending if known else 0)
            self._fits(others, size, self._limits.pending_pods_bytes, "Pods without a node")

    def schedulable(self, namespace: str) -> None:
        """RESOURCE_EXHAUSTED where so many Pods have no node that no more are to be made."""
        if (pending := self._of(namespace).weight) >= self._limits.pending_pods:
            most = f"at most {self._limits.pending_pods}, where each term that selects Pods counts for four more"
            text = f"{EXCEEDED_QUOTA}: {pending} Pods of this tenant have no node: {most}"
            raise Refused(Code.RESOURCE_EXHAUSTED, text)

    def _fits(self, others: int, size: int, most: int, what: str) -> None:
        if others + size > most:
            text = f"{EXCEEDED_QUOTA}: {size} bytes, beside {what} of {others}: at most {most} together"
            raise Refused(Code.RESOURCE_EXHAUSTED, text)

    def forget_idle(self) -> None:
        self._written.forget_idle()

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
