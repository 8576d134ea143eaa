"""One stream of what runs in a tenant's cluster.

It is applied to the infra cluster by the latest state of each workload and not by event. It reads as fast as it
can write. An unusable workload is dropped with a log line, and its last good state stays. An older stream of the same
tenant ends: at this replica when a newer one begins, at another one when a Workload shows that a newer one writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from app.kube.walls import fault
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.doubles import Doubles
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.slices import Slices
from app.tenancy.gateway.stored_workloads import GONE, Known, StreamIds
from app.tenancy.gateway.workload_events import Census, Unusable, checked_id, state_of
from app.tenancy.gateway.workload_writer import WorkloadWriter
from app.tenancy.model import Tenant
from app.tenancy.proto import workload_pb

_SLICE = 200
"""Stored workloads that are compared in one turn of the event loop."""


class WorkloadStream:
    """`run` ends when its sender has closed it and all is written; it raises `Refused` where it cannot go on.

    `superseded` says that a newer stream of its tenant writes, at this replica or at another one. `pace` waits until
    another event may be read.
    """

    def __init__(
        self, backend: Backend, tenant: Tenant, *, ids: StreamIds, pace: Callable[[], Awaitable[None]]
    ) -> None:
        self._backend, self._tenant = backend, tenant
        self._sources = backend.sources
        self._ids, self._pace = ids, pace
        limits = backend.limits
        self._census = Census(limits.workloads_per_tenant, size=limits.workloads_bytes, advised=self._advised)
        self._writer = WorkloadWriter(backend, tenant, rejected=self._rejected)
        self._doubles = Doubles(backend, tenant.name)
        self._complete = False
        self._lost = asyncio.Event()
        self.superseded = asyncio.Event()

    async def run(self, requests: AsyncIterator[workload_pb.WorkloadStreamRequest]) -> None:
        unsubscribe = self._sources.workloads.subscribe(lambda _type, key, old, new: self._shown(key, old, new))
        stored = self._sources.workloads_in(self._tenant.namespace)
        self._census.begin(known.size for known in stored)
        # From here on whatever has a later id is of a newer stream.
        self._writer.stream = self._ids.next(known.stream for known in stored)
        workers = [self._writer.work() for _ in range(self._backend.limits.writes_per_tenant)]
        parts = (self._read(requests), self._lost.wait(), self.superseded.wait(), self._doubles.work(), *workers)
        reader, lost, newer, *_ = tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if newer in done and reader not in done:
                raise Refused(Code.ABORTED, "a newer stream of the same tenant has taken over")
            if lost in done:
                raise Refused(Code.UNAVAILABLE, "the infra cluster has lost what was sent: begin with everything")
        finally:
            # Whatever has not been written is dropped: the next stream begins with the full state.
            unsubscribe()
            self._writer.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, requests: AsyncIterator[workload_pb.WorkloadStreamRequest]) -> None:
        async for request in requests:
            try:
                await self._take(request)
            except Unusable as unusable:
                self._drop(unusable)
            except Refused:
                raise
            except Exception:  # noqa: BLE001  the wall: the events after this one are read
                fault("workload-stream", tenant=self._tenant.name)
                self._drop(Unusable("internal", "internal error of the gateway"))
            await self._writer.room()
            await self._pace()
        await self._writer.empty()

    async def _take(self, request: workload_pb.WorkloadStreamRequest) -> None:
        kind = request.WhichOneof("event")
        if kind is None:
            raise Unusable("content", "an event of no kind")
        self._backend.observer.event(self._tenant.name, kind)
        if kind == "update":
            await self._update(checked_id(request.update.metadata.id), request.update)
        elif kind == "delete":
            workload_id = checked_id(request.delete.id)
            self._census.discard(workload_id)
            self._writer.put(workload_id, GONE)
        else:
            self._complete = True
            await self._sweep_all()
            self._doubles.look()

    async def _update(self, workload_id: str, workload: workload_pb.Workload) -> None:
        stored, limits = self._writer.known(workload_id), self._backend.limits
        if not self._census.room(workload_id, known=stored is not None):
            most = min(limits.workloads_per_tenant, self._advised())
            raise Unusable("limit", f"a tenant with so many rules has at most {most} workloads", workload_id)
        if stored is not None:
            # Before anything else: what cannot be taken still runs, and its last good state stays.
            self._census.add(workload_id, stored.size)
        size, limit = workload.ByteSize(), limits.workload_bytes
        # The next event is read when this one is done: the order stays.
        state = await self._backend.readers.read_message(
            lambda: state_of(workload, size, limit=limit), size=size, tenant=self._tenant.name
        )
        if not self._census.fits(workload_id, state.size, stored=_bytes(stored)):
            problem = f"all workloads of a tenant have at most {limits.workloads_bytes} bytes together"
            raise Unusable("limit", problem, workload_id)
        self._census.add(workload_id, state.size)
        self._writer.put(workload_id, state)

    def _advised(self) -> int:
        """How many workloads there may be beside the rules that there are."""
        return self._backend.limits.pairs // max(1, self._sources.count_rules(self._tenant.namespace))

    def _shown(self, key: tuple[str, str], old: Known | None, new: Known | None) -> None:
        """What an earlier stream wrote may come into the cache after `synced`: that is swept too."""
        if key[0] != self._tenant.namespace:
            return
        self._census.stored += (new is not None) - (old is not None)
        self._census.stored_bytes += _bytes(new) - _bytes(old)
        if old is not None and self._lose(old, new) and old.workload_id in self._census:
            # Only the agent knows what has to be there: it begins with everything.
            self._lost.set()
        if new is None:
            return
        if new.stream > self._writer.stream:
            self.superseded.set()
        elif self._complete:
            self._sweep(new)

    def _lose(self, old: Known, new: Known | None) -> bool:
        """Whether something else has deleted it, or the cluster was restored from an earlier copy."""
        if new is None:
            return not self._writer.removed(old)
        return self._sources.workloads.in_doubt and new.before(old)

    async def _sweep_all(self) -> None:
        slices = Slices(_SLICE)
        for known in self._sources.workloads_in(self._tenant.namespace):
            # As it is now: it may have changed since the slice before.
            if (shown := self._sources.workloads.get(*known.key)) is not None:
                self._sweep(shown)
            await slices.worked()

    def _sweep(self, known: Known) -> None:
        if known.stream > self._writer.stream:
            return  # of a newer stream: its agent knows what runs, this one does no more
        if known.workload_id and known.workload_id not in self._census:
            self._writer.put(known.workload_id, GONE)

    def _rejected(self, workload_id: str, problem: str) -> None:
        self._drop(Unusable("rejected", problem, workload_id))
        if not self._writer.waits(workload_id) and self._writer.known(workload_id) is None:
            self._census.discard(workload_id)

    def _drop(self, unusable: Unusable) -> None:
        self._backend.observer.event_dropped(self._tenant.name, unusable.reason)
        same = {"tenant": self._tenant.name, "reason": unusable.reason}
        self._backend.lines.warning("event dropped", same, workload=unusable.workload_id, problem=str(unusable))


def _bytes(known: Known | None) -> int:
    return known.size if known is not None else 0
