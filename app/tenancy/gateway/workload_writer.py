"""Writes the Workloads of one stream: the latest state of each, where it differs from what is stored, until it is.

Bounded in number and bytes: `room` makes the reader of the stream wait, which holds up its sender alone. A refused
write is tried again; if the refusals go on, the stream ends, so that its agent sends everything again. Every object
records the stream that wrote it. An object with the right spec is not written again for that record.

Doubles are what other Tenants have of a cluster that is another's: an older version of Berth let the agent of a
cluster in with the bundles of several tenants, and a cluster may be moved from one Tenant to another. They are
removed only once the tenant that has the cluster has sent all of its own: companions are there before their doubles
go, and a tenant that is merely disconnected loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

import msgspec
import structlog

from app.errors import ApiError
from app.kube.queue import QueueClosed, WorkQueue
from app.kube.retry import get_or_none, if_there
from app.kube.walls import fault, wall
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.caches import STREAM, STREAM_PATH, Known, State, project_known
from app.tenancy.gateway.failures import Code, Refused, code_of, message_of, namespace_needed
from app.tenancy.model import Tenant, holder_of, link_of
from app.workloads.model import TENANTS, WORKLOADS, ObjectKey, workload_name

log = structlog.get_logger(__name__)
_PATIENCE = 3
"""Refusals after which a workload makes room for others."""


class WorkloadWriter:
    """`stream` is the id of the stream. `rejected` gets what the API server will never take, with the reason.

    `work` is one worker; it ends when the writer is closed.
    """

    def __init__(self, backend: Backend, tenant: Tenant, *, rejected: Callable[[str, str], None]) -> None:
        self._backend, self._tenant, self._rejected = backend, tenant, rejected
        self._client, self._ledger = backend.client, backend.sources.ledger
        self.stream = ""
        self._queue: WorkQueue[str] = WorkQueue(base=0.1, cap=15.0)
        self._wanted: dict[str, State] = {}
        self._bytes = 0
        self._changed = asyncio.Event()
        self._failing_since: float | None = None
        self._removing: set[str] = set()

    def put(self, workload_id: str, state: State) -> None:
        """A newer state replaces one that waits. The same one is not put again: its pause would start again."""
        old = self._wanted.get(workload_id)
        if old is not None and old.spec == state.spec:
            return
        self._bytes += state.size - (old.size if old is not None else 0)
        self._wanted[workload_id] = state
        self._queue.forget(workload_id)
        self._queue.add(workload_id)

    def known(self, workload_id: str) -> Known | None:
        """The newest known state of what is stored."""
        return self._ledger.get((self._tenant.namespace, workload_name(workload_id)))

    def waits(self, workload_id: str) -> bool:
        return workload_id in self._wanted

    async def room(self) -> None:
        """Wait until another event may be read."""
        await self._until(lambda: self._has_room)

    @property
    def _has_room(self) -> bool:
        limits = self._backend.limits
        return len(self._wanted) < limits.pending_events and self._bytes < limits.pending_bytes

    async def empty(self) -> None:
        """Wait until everything has been written, or given up."""
        await self._until(lambda: not self._wanted)

    def close(self) -> None:
        """What has not been written is dropped."""
        self._queue.close()

    def removed(self, gone: Known) -> bool:
        """Whether it is gone because of this writer; to be asked once for each object that is gone."""
        if ours := gone.uid in self._removing:
            self._removing.remove(gone.uid)
        return ours

    async def work(self) -> None:
        with contextlib.suppress(QueueClosed):
            while True:
                workload_id = await self._queue.get()
                try:
                    if (state := self._wanted.get(workload_id)) is not None:
                        await self._walled(workload_id, state)
                finally:
                    self._queue.done(workload_id)

    async def _walled(self, workload_id: str, state: State) -> None:
        try:
            await self._next(workload_id, state)
        except Refused:
            raise
        except Exception:  # noqa: BLE001  the wall: the other workloads of the tenant are written
            fault("workload-stream", tenant=self._tenant.name, workload=workload_id)
            self._queue.forget(workload_id)
            self._settle(workload_id, state)
            self._rejected(workload_id, "internal error of the gateway")

    async def _next(self, workload_id: str, state: State) -> None:
        namespace = self._tenant.namespace
        key = (namespace, workload_name(workload_id))
        stored = self.known(workload_id)
        if state.spec is not None and (stored is None or stored.digest != state.digest):
            await self._backend.storing.turn(namespace, state.size)
        try:
            async with self._backend.turns.of(namespace):
                began = time.monotonic()
                verb = await self._write(key, state)
                if verb != "unchanged":
                    self._backend.turns.took(namespace, verb, time.monotonic() - began)
        except ApiError as error:
            self._failed(workload_id, key, state, error)
            return
        self._failing_since = None
        self._queue.forget(workload_id)
        self._settle(workload_id, state)
        self._backend.observer.written(self._tenant.name, verb, "done")

    def _failed(self, workload_id: str, key: ObjectKey, state: State, error: ApiError) -> None:
        backend, tenant = self._backend, self._tenant.name
        backend.observer.written(tenant, "delete" if state.spec is None else "replace", "failed")
        self._ledger.forget(key)
        crowded = not self._has_room and self._queue.failures(workload_id) >= _PATIENCE
        if error.rejected or (error.about_object and crowded):
            # It will not pass by itself; a later state of the same workload may. What may pass, as a quota that is
            # full, waits, but not in the place of others: the sender sends everything again in a while.
            self._settle(workload_id, state)
            self._rejected(workload_id, message_of(error))
            return
        if code_of(error) is Code.UNAVAILABLE:
            now = time.monotonic()
            self._failing_since = now if self._failing_since is None else self._failing_since
            if now - self._failing_since >= backend.limits.give_up:
                raise Refused(Code.UNAVAILABLE, message_of(error)) from error
        delay = f"{self._queue.retry(workload_id, at_least=error.delay):.3f}"
        same = {"tenant": tenant, "status": str(error.status)}
        backend.lines.warning("write again", same, workload=workload_id, delay_s=delay, error=str(error))

    def _settle(self, workload_id: str, state: State) -> None:
        """This state has been written, or given up; a newer one that came meanwhile stays."""
        if self._wanted.get(workload_id) is state:
            del self._wanted[workload_id]
            self._bytes -= state.size
            self._changed.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def _write(self, key: ObjectKey, state: State) -> str:
        """Returns "create", "replace", "delete" or "unchanged". Raises ApiError, or Refused for a missing namespace."""
        stored = self._ledger.get(key)
        if state.spec is None:
            return "unchanged" if stored is None else await self._remove(stored)
        spec = msgspec.Raw(state.spec)
        if stored is None:
            return await self._create(key, spec)
        if stored.digest == state.digest:
            return "unchanged"
        return await self._replace(key, spec, marked=bool(stored.stream))

    async def _create(self, key: ObjectKey, spec: msgspec.Raw) -> str:
        namespace, name = key
        metadata = {"name": name, "namespace": namespace, "annotations": {STREAM: self.stream}}
        try:
            with namespace_needed(namespace):
                made = await self._client.create(WORKLOADS, WORKLOADS.body(metadata, spec=spec), namespace=namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return await self._replace(key, spec, marked=False)
        self._ledger.wrote(key, project_known(made))
        return "create"

    async def _replace(self, key: ObjectKey, spec: msgspec.Raw, *, marked: bool) -> str:
        """Replace the whole spec, and nothing else. No other client writes specs, so no resourceVersion is needed."""
        namespace, name = key
        content = {"op": "replace", "path": "/spec", "value": spec}
        mark = {"op": "add", "path": STREAM_PATH, "value": self.stream}
        try:
            if not marked:
                # A JSON Patch adds to annotations only where there are some; a merge patch leaves others' alone.
                first = {"metadata": {"annotations": {STREAM: self.stream}}}
                await self._client.patch(WORKLOADS, name, first, patch_type="merge", namespace=namespace)
            made = await self._client.patch(WORKLOADS, name, [content, mark], patch_type="json", namespace=namespace)
        except ApiError as error:
            if not error.not_found:
                raise
            return await self._create(key, spec)
        self._ledger.wrote(key, project_known(made))
        return "replace"

    async def _remove(self, stored: Known) -> str:
        self._removing.add(stored.uid)  # before the request: the watch may be faster than the answer
        try:
            await self._client.delete(WORKLOADS, stored.name, namespace=stored.namespace, uid=stored.uid)
        except ApiError as error:
            shown = self._backend.sources.workloads.get(*stored.key)
            if (error.not_found or error.conflict) and (shown is None or shown.uid != stored.uid):
                self._removing.discard(stored.uid)  # it was gone before, and its end has been shown
            if not error.not_found:
                raise  # a conflict is another object of this name: the cache will show it, and it is tried again
        self._ledger.deleted(stored.key, stored.uid)
        return "delete"


class Doubles:
    """`work` removes them after each `look`, for as long as it runs."""

    def __init__(self, backend: Backend, tenant: str) -> None:
        self._backend, self._tenant = backend, tenant
        self._wake = asyncio.Event()

    def look(self) -> None:
        """The tenant has sent all of its workloads."""
        self._wake.set()

    async def work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for rival in self._backend.sources.rivals_of(self._tenant):
                with wall("doubles", tenant=rival.name):
                    await self._removed(rival.name, rival.namespace)

    async def _removed(self, rival: str, namespace: str) -> None:
        try:
            await self._remove(rival, namespace)
        except ApiError as error:  # the next `synced` comes within a minute
            log.info("workloads of another tenant not removed", tenant=rival, error=str(error))

    async def _remove(self, rival: str, namespace: str) -> None:
        """What a stream of the gateway has written there; what was made by hand stays."""
        backend = self._backend
        doubled = [workload for workload in backend.sources.workloads_in(namespace) if workload.stream]
        if not doubled or not await self._is_rival(rival):
            return
        for workload in doubled:
            async with backend.turns.of(namespace):
                await if_there(backend.client.delete(WORKLOADS, workload.name, namespace=namespace, uid=workload.uid))
        log.info("workloads removed: another tenant has the cluster", tenant=rival, workloads=len(doubled))

    async def _is_rival(self, name: str) -> bool:
        """Ask the API server: of a rival that has a cluster of its own now, the cache may show what that one has sent.

        That it has another cluster may arrive later, by another watch.
        """
        tenants = {tenant: await get_or_none(self._backend.client, TENANTS, tenant) for tenant in (self._tenant, name)}
        links = {holder: link_of(obj) for holder, obj in tenants.items() if obj is not None}
        return name in links and holder_of(links[name].cluster, links.items()) == self._tenant
