"""The service that takes what runs in tenants' clusters: one stream of each tenant, the newest.

A stream is applied to the infra cluster by the latest state of each workload and not by event. It reads as fast as it
can write. An unusable workload is dropped with a log line, and its last good state stays. An older stream of the same
tenant ends: at this replica when a newer one begins, at another one when a Workload shows that a newer one writes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from app.kube.rate import Rate
from app.kube.walls import fault
from app.tenancy.gateway.admitting import tenant_of_call
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.caches import GONE, Known, State, StreamIds, digest_of
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.service import Slices
from app.tenancy.gateway.workload_writer import Doubles, WorkloadWriter
from app.tenancy.messages import MessageError, canonical, spec_of_workload
from app.tenancy.model import Tenant
from app.tenancy.proto import workload_grpc, workload_pb

_SLICE = 200
"""Stored workloads that are compared in one turn of the event loop."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
"""Ids of Kubernetes. Of one form and length, so that no name that ends with one can be read in two ways."""
_SHOWN = 80


class WorkloadService(workload_grpc.WorkloadServiceServicer):
    """One stream of a tenant is served at a time: a new one ends the old one with ABORTED."""

    def __init__(self, backend: Backend) -> None:
        limits = backend.limits
        self._backend = backend
        self._events: Rate[str] = Rate(per_second=limits.events_per_second, burst=limits.events_burst)
        self._ids = StreamIds()
        self._current: dict[str, _Stream] = {}

    async def WorkloadStream(  # noqa: N802
        self, request_iterator: AsyncIterator[workload_pb.WorkloadStreamRequest], _context: object
    ) -> workload_pb.WorkloadStreamResponse:
        tenant = tenant_of_call()
        if (older := self._current.get(tenant.name)) is not None:
            older.superseded.set()
        stream = self._current[tenant.name] = _Stream(
            self._backend, tenant, ids=self._ids, pace=lambda: self._events.turn(tenant.name)
        )
        try:
            await stream.run(request_iterator)
        finally:
            if self._current.get(tenant.name) is stream:
                del self._current[tenant.name]
        return workload_pb.WorkloadStreamResponse()


class _Stream:
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
        self._census = _Census(limits.workloads_per_tenant, size=limits.workloads_bytes, advised=self._advised)
        self._writer = WorkloadWriter(backend, tenant, rejected=self._rejected)
        self._doubles = Doubles(backend, tenant.name)
        self._complete = False
        self._lost = asyncio.Event()
        self.superseded = asyncio.Event()

    async def run(self, requests: AsyncIterator[workload_pb.WorkloadStreamRequest]) -> None:
        unsubscribe = self._sources.workloads.subscribe(lambda _type, key, old, new: self._shown(key, old, new))
        stored = self._sources.workloads_in(self._tenant.namespace)
        self._census.begin(workload.size for workload in stored)
        # From here on whatever has a later id is of a newer stream.
        self._writer.stream = self._ids.next(workload.stream for workload in stored)
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
            await self._update(_checked_id(request.update.metadata.id), request.update)
        elif kind == "delete":
            workload_id = _checked_id(request.delete.id)
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
            lambda: _state_of(workload, size, limit=limit), size=size, tenant=self._tenant.name
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
        for workload in self._sources.workloads_in(self._tenant.namespace):
            # As it is now: it may have changed since the slice before.
            if (shown := self._sources.workloads.get(*workload.key)) is not None:
                self._sweep(shown)
            await slices.worked()

    def _sweep(self, workload: Known) -> None:
        if workload.stream > self._writer.stream:
            return  # of a newer stream: its agent knows what runs, this one does no more
        if workload.workload_id and workload.workload_id not in self._census:
            self._writer.put(workload.workload_id, GONE)

    def _rejected(self, workload_id: str, problem: str) -> None:
        self._drop(Unusable("rejected", problem, workload_id))
        if not self._writer.waits(workload_id) and self._writer.known(workload_id) is None:
            self._census.discard(workload_id)

    def _drop(self, unusable: Unusable) -> None:
        self._backend.observer.event_dropped(self._tenant.name, unusable.reason)
        same = {"tenant": self._tenant.name, "reason": unusable.reason}
        self._backend.lines.warning("event dropped", same, workload=unusable.workload_id, problem=str(unusable))


def _bytes(workload: Known | None) -> int:
    return workload.size if workload is not None else 0


class Unusable(Exception):
    """An event that is dropped for this `reason`."""

    def __init__(self, reason: str, problem: str, workload_id: str = "") -> None:
        super().__init__(problem)
        self.reason, self.workload_id = reason, workload_id


def _checked_id(workload_id: str) -> str:
    if not _UUID.fullmatch(workload_id):
        raise Unusable("id", f"{workload_id[:_SHOWN]!r} is not an id of Kubernetes: use a UUID in lower case")
    return workload_id


def _state_of(workload: workload_pb.Workload, size: int, *, limit: int) -> State:
    """Pure: large ones are read beside the event loop. `size` is the message's in bytes."""
    workload_id = workload.metadata.id
    if size <= 2 * limit:  # a message of more need not be taken apart to know
        try:
            spec = canonical(spec_of_workload(workload))
        except MessageError as error:
            raise Unusable("content", str(error), workload_id) from error
        if (size := len(spec)) <= limit:
            return State(spec, digest_of(spec))
    raise Unusable("size", f"{size} bytes: a workload has at most {limit}", workload_id)


class _Census:
    """Limits a stream to `limit` workloads of `size` bytes together.

    The code that follows the cache updates `stored` and `stored_bytes`. No new workloads are taken beyond `advised`,
    which may change at any time.

    A new stream may have other ids than the stored workloads, which are removed once it has sent all of its own. Until
    then twice the limits may be stored, however many streams end before that point.
    """

    def __init__(self, limit: int, *, size: int, advised: Callable[[], int]) -> None:
        self._limit, self._size, self._advised = limit, size, advised
        self._sent: dict[str, int] = {}
        self._bytes = 0
        self.stored = self.stored_bytes = 0

    def __contains__(self, workload_id: object) -> bool:
        return workload_id in self._sent

    def begin(self, sizes: Iterable[int]) -> None:
        """These are the sizes of what is stored."""
        counted = list(sizes)
        self.stored, self.stored_bytes = len(counted), sum(counted)

    def room(self, workload_id: str, *, known: bool) -> bool:
        """Whether this workload may be taken; `known` are those that are stored."""
        if workload_id in self._sent:
            return True
        if len(self._sent) >= self._limit:
            return False
        return known or (self.stored < 2 * self._limit and len(self._sent) < self._advised())

    def fits(self, workload_id: str, size: int, *, stored: int) -> bool:
        """Whether this workload may have so many bytes; it has `stored` ones now. It may always have fewer."""
        others = self._bytes - self._sent.get(workload_id, 0)
        within = others + size <= self._size and self.stored_bytes - stored + size <= 2 * self._size
        return within or size < stored

    def add(self, workload_id: str, size: int) -> None:
        self.discard(workload_id)
        self._sent[workload_id] = size
        self._bytes += size

    def discard(self, workload_id: str) -> None:
        self._bytes -= self._sent.pop(workload_id, 0)
