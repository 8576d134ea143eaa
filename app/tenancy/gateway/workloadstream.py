"""Applies one stream of a tenant's workloads to the infra cluster, by the latest state of each and not by event.

It reads as fast as it can write. An unusable workload is dropped with a log line, and its last good state stays. A
refused write is tried again; if the refusals go on, the stream ends, so that its agent sends everything again.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator

from app.errors import ApiError
from app.kube.queue import QueueClosed
from app.tenancy.gateway.failures import Code, Refused, message_of
from app.tenancy.gateway.intake import GONE, Intake, State
from app.tenancy.gateway.ledger import Known, digest_of
from app.tenancy.gateway.reading import SMALL_MESSAGE
from app.tenancy.gateway.sources import BY_NAMESPACE
from app.tenancy.gateway.workload_quota import Census
from app.tenancy.gateway.writing import Writer, Writing
from app.tenancy.messages import MessageError, canonical, workload_spec
from app.tenancy.model import Tenant
from app.tenancy.proto.universe.workload.v1 import workload_pb2 as pb
from app.workloads.model import ObjectKey, workload_name

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
"""Ids of Kubernetes. Of one form and length, so that no name that ends with one can be read in two ways."""
_SHOWN = 80


class _Unusable(Exception):
    """A workload that is dropped for this `reason`."""

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class WorkloadStream:
    """`run` ends when its sender has closed it and all is written; it raises `Refused` where it cannot go on.

    It sets `superseded` when a Workload shows that a newer stream of its tenant writes, at another replica.
    """

    def __init__(self, writing: Writing, tenant: Tenant, superseded: asyncio.Event) -> None:
        self._with = writing
        self._tenant = tenant
        self._superseded = superseded
        self._id = ""
        limits = writing.options.limits
        self._census = Census(limits.workloads_per_tenant, size=limits.workloads_bytes, advised=self._advised)
        self._intake = Intake(limits)
        self._complete = False
        self._failing_since: float | None = None
        self._lost = asyncio.Event()
        self._writer = Writer(writing.client, writing.ledger)

    async def run(self, requests: AsyncIterator[pb.WorkloadStreamRequest]) -> None:
        unsubscribe = self._with.store.subscribe(lambda _type, key, old, new: self._shown(key, old, new))
        stored = self._stored()
        self._census.begin(known.size for known in stored)
        # From here on whatever has a later id is of a newer stream.
        self._id = self._with.ids.next(known.stream for known in stored)
        workers = {asyncio.create_task(self._work()) for _ in range(self._with.options.limits.writes_per_tenant)}
        reader, lost = asyncio.create_task(self._read(requests)), asyncio.create_task(self._lost.wait())
        try:
            done, _ = await asyncio.wait({reader, lost, *workers}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {lost}:
                task.result()
            if lost in done:
                raise Refused(Code.UNAVAILABLE, "the infra cluster has lost what was sent: begin with everything")
        finally:
            # Whatever has not been written is dropped: the next stream begins with the full state.
            unsubscribe()
            self._intake.queue.close()
            for task in (reader, lost, *workers):
                task.cancel()
            await asyncio.gather(reader, lost, *workers, return_exceptions=True)

    async def _read(self, requests: AsyncIterator[pb.WorkloadStreamRequest]) -> None:
        async for request in requests:
            kind = request.WhichOneof("event")
            if kind is None:
                self._drop("content", "an event of no kind")
                await self._with.events.turn(self._tenant.name)
                continue
            self._with.observer.event(self._tenant.name, kind)
            if kind == "update":
                await self._update(request.update)
            elif kind == "delete":
                self._delete(request.delete.id)
            else:
                self._synced()
            await self._intake.room()
            await self._with.events.turn(self._tenant.name)
        await self._intake.empty()

    async def _update(self, workload: pb.Workload) -> None:
        workload_id = workload.metadata.id
        if not self._good(workload_id):
            return
        stored, limits = self._known(workload_id), self._with.options.limits
        if not self._census.room(workload_id, known=stored is not None):
            most = min(limits.workloads_per_tenant, self._advised())
            self._drop("limit", f"a tenant with so many rules has at most {most} workloads", workload_id)
            return
        if stored is not None:
            # Before anything else: what cannot be taken still runs, and its last good state stays.
            self._census.add(workload_id, stored.size)
        size, limit = workload.ByteSize(), limits.workload_bytes
        try:
            # The next event is read when this one is done: the order stays.
            state = await self._with.readers.read(
                lambda: _state(workload, size, limit=limit), size=size, tenant=self._tenant.name, small=SMALL_MESSAGE
            )
        except _Unusable as unusable:
            self._drop(unusable.reason, str(unusable), workload_id)
            return
        if not self._census.fits(workload_id, state.size, stored=_bytes(stored)):
            problem = f"all workloads of a tenant have at most {limits.workloads_bytes} bytes together"
            self._drop("limit", problem, workload_id)
            return
        self._census.add(workload_id, state.size)
        self._want(workload_id, state)

    def _delete(self, workload_id: str) -> None:
        if self._good(workload_id):
            self._census.discard(workload_id)
            self._want(workload_id, GONE)

    def _advised(self) -> int:
        """How many workloads there may be beside the rules that there are."""
        return self._with.options.limits.pairs // max(1, self._with.rules.count(BY_NAMESPACE, self._tenant.namespace))

    def _synced(self) -> None:
        self._complete = True
        for known in self._stored():
            self._sweep(known)

    def _stored(self) -> list[Known]:
        return self._with.store.by_index(BY_NAMESPACE, self._tenant.namespace)

    def _known(self, workload_id: str) -> Known | None:
        return self._with.ledger.get((self._tenant.namespace, workload_name(workload_id)))

    def _shown(self, key: ObjectKey, old: Known | None, new: Known | None) -> None:
        """What an earlier stream wrote may come into the cache after `synced`: that is swept too."""
        if key[0] != self._tenant.namespace:
            return
        self._census.stored += (new is not None) - (old is not None)
        self._census.stored_bytes += _bytes(new) - _bytes(old)
        sent = key[1].removeprefix(workload_name("")) in self._census
        if sent and old is not None and (self._removed(old) if new is None else self._restored(old, new)):
            # Only the agent knows what has to be there: it begins with everything.
            self._lost.set()
        if new is None:
            return
        if new.stream > self._id:
            self._superseded.set()
        elif self._complete:
            self._sweep(new)

    def _removed(self, old: Known) -> bool:
        """Whether something else has deleted it: the namespace was deleted, the definition, or the object by hand."""
        return not self._writer.removed(old)

    def _restored(self, old: Known, new: Known) -> bool:
        """Whether the cluster was restored from an earlier copy."""
        return self._with.store.in_doubt and new.before(old)

    def _sweep(self, known: Known) -> None:
        if known.stream > self._id:
            return  # of a newer stream: its agent knows what runs, this one does no more
        workload_id = known.name.removeprefix(workload_name(""))
        if workload_name(workload_id) == known.name and workload_id not in self._census:
            self._want(workload_id, GONE)

    def _want(self, workload_id: str, state: State) -> None:
        """A state that waits to be written is not put again: its pause would begin anew."""
        waiting = self._intake.wanted(workload_id)
        if waiting is None or (waiting.digest, waiting.size) != (state.digest, state.size):
            self._intake.put(workload_id, state)

    def _good(self, workload_id: str) -> bool:
        if _UUID.fullmatch(workload_id):
            return True
        self._drop("id", f"{workload_id[:_SHOWN]!r} is no id of Kubernetes: use a UUID in lower case")
        return False

    def _drop(self, reason: str, problem: str, workload_id: str = "") -> None:
        self._with.observer.event_dropped(self._tenant.name, reason)
        same = {"tenant": self._tenant.name, "reason": reason}
        self._with.lines.warning("event dropped", same, workload=workload_id, problem=problem)

    async def _work(self) -> None:
        queue = self._intake.queue
        while True:
            try:
                workload_id = await queue.get()
            except QueueClosed:
                return
            try:
                await self._settle(workload_id)
            finally:
                queue.done(workload_id)

    async def _settle(self, workload_id: str) -> None:
        state = self._intake.wanted(workload_id)
        if state is None:
            return
        key = (self._tenant.namespace, workload_name(workload_id))
        if self._writer.changes(key, state):
            await self._with.storing.turn(self._tenant.namespace, state.size)
        try:
            async with self._with.turns.of(self._tenant.namespace):
                verb = await self._writer.write(key, state, self._id)
        except ApiError as error:
            self._failed(workload_id, state, error)
            return
        self._failing_since = None
        self._intake.queue.forget(workload_id)
        self._intake.settle(workload_id, state)
        self._with.observer.written(self._tenant.name, verb, "done")

    def _failed(self, workload_id: str, state: State, error: ApiError) -> None:
        self._with.observer.written(self._tenant.name, "delete" if state.spec is None else "replace", "failed")
        self._with.ledger.forget((self._tenant.namespace, workload_name(workload_id)))
        if error.rejected:
            # It will not pass by itself; a later state of the same workload may.
            self._drop("rejected", message_of(error), workload_id)
            self._intake.settle(workload_id, state)
            if self._intake.wanted(workload_id) is None and self._known(workload_id) is None:
                self._census.discard(workload_id)
            return
        if error.status in (0, 401, 429) or error.status >= 500:
            now = time.monotonic()
            self._failing_since = now if self._failing_since is None else self._failing_since
            if now - self._failing_since >= self._with.options.give_up:
                raise Refused(Code.UNAVAILABLE, message_of(error)) from error
        delay = self._intake.queue.retry(workload_id, at_least=error.delay)
        same = {"tenant": self._tenant.name, "status": str(error.status)}
        self._with.lines.warning("write again", same, workload=workload_id, delay_s=f"{delay:.3f}", error=str(error))


def _bytes(known: Known | None) -> int:
    return known.size if known is not None else 0


def _state(workload: pb.Workload, size: int, *, limit: int) -> State:
    """Pure: large ones are read beside the event loop. `size` is the message's in bytes."""
    if size <= 2 * limit:  # a message of more need not be taken apart to know
        try:
            spec = workload_spec(workload)
        except MessageError as error:
            raise _Unusable("content", str(error)) from error
        if (size := len(content := canonical(spec))) <= limit:
            return State(spec, digest_of(content), size)
    raise _Unusable("size", f"{size} bytes: a workload has at most {limit}")
