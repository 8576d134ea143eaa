"""The workload controller: it makes the Workload of an AppWrapper with a queue, and starts and stops it as Kueue says.

It stands in for the one that is part of Kueue since 0.11; of the two, one may run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import structlog

from app.appwrappers.ancestors import Ancestor, managed_ancestor, stored_ancestor
from app.appwrappers.kueue.assignments import FlavorMissingError
from app.appwrappers.kueue.caches import Caches
from app.appwrappers.kueue.model import WORKLOADS, WORKLOADS_V1BETA1
from app.appwrappers.kueue.priorities import Priorities
from app.appwrappers.kueue.steps import Seen, Step, next_step
from app.appwrappers.kueue.stored import Job, Workload
from app.appwrappers.kueue.writing import Writing
from app.errors import ApiError, Terminal, Transient
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.discovery import Discovery
from app.kube.events import EventRecorder
from app.kube.resources import Resource
from app.kube.retry import get_or_none
from app.kube.running import start
from app.kube.store import Key
from app.text import utc_now

log = structlog.get_logger(__name__)
_LOOK = 15.0
"""Seconds between two looks whether Kueue's kinds are served."""
_MISSING = f"{WORKLOADS.plural}.{WORKLOADS.group} are not served (is Kueue installed?)"


class WorkloadsOfAppWrappers:
    """`run` it while this process leads; it runs once, and waits for Kueue's kinds to be served."""

    def __init__(
        self,
        client: KubeClient,
        *,
        workers: int = 16,
        resync: float | None = 600.0,
        events: EventRecorder | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client, self._workers, self._resync, self._events = client, workers, resync, events
        self._now = now
        self._caches: Caches | None = None

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return self._caches.waiting() if self._caches is not None else [_MISSING]

    async def run(self) -> None:
        """Until cancelled; what is under way then gets a few seconds to end."""
        resource = await self._served()
        work = _Work(self._client, resource, self._events, self._now)
        self._caches = work.caches
        controller: Controller[Key] = Controller(
            "appwrapper-workloads",
            work.reconcile,
            stores=work.caches.stores,
            keys=work.caches.jobs.keys,
            workers=self._workers,
            resync=self._resync,
        )
        work.wake = controller.enqueue
        async with asyncio.TaskGroup() as group:
            start(group, work.caches.reflectors, (controller,))

    async def _served(self) -> Resource:
        """Workloads in the newest version that is served, as soon as one is."""
        discovery = Discovery(self._client)
        while True:
            for one in (WORKLOADS, WORKLOADS_V1BETA1):
                try:
                    if await discovery.resource_of(one.api_version, one.kind) is not None:
                        return one
                except Transient as error:
                    log.info("kinds of Kueue not known", error=str(error))
            await asyncio.sleep(_LOOK)


class _Work:
    def __init__(
        self, client: KubeClient, resource: Resource, events: EventRecorder | None, now: Callable[[], datetime]
    ) -> None:
        self.wake: Callable[[Key], object] = lambda _key: None
        self._client, self._now = client, now
        self.caches = Caches(client, self._wake, workloads=resource)
        self._writing = Writing(client, resource, Priorities(client, self.caches.priorities), events)

    def _wake(self, key: Key) -> None:
        self.wake(key)

    async def reconcile(self, key: Key) -> Result:
        """One write at most: its change of the caches asks for the next. What keeps a Workload away is an Event."""
        job = self.caches.jobs.get(*key)
        if job is None:
            await self._release(key)
            return Done()
        try:
            again = await self._step(job)
        except (Transient, Terminal) as error:
            if not isinstance(error, ApiError) or (error.about_object and not error.conflict):
                self._writing.refused(job, str(error))
            raise
        return RequeueAfter(again) if again else Done()

    async def _step(self, job: Job) -> float:
        """The seconds until another is due; 0 where a change asks for it."""
        caches = self.caches
        found = sorted(caches.workloads.by_index("owner", job.uid), key=lambda one: one.key)
        prebuilt = caches.workloads.get(job.key[0], job.prebuilt) if job.prebuilt else None
        ancestors = await self._ancestors(job) if job.owner else None
        flavors = {spec["name"]: spec for spec in caches.flavors.store.values()}
        try:
            step = await self._next(Seen(job, tuple(found), prebuilt, flavors, self._now(), ancestors))
        except (ValueError, TypeError, AttributeError, KeyError) as error:  # of a shape that no Workload takes
            raise Terminal(f"its podSets cannot be put into a Workload: {error}") from error
        if step.action:
            await self._writing.write(job, step)
        return step.again

    async def _next(self, seen: Seen) -> Step:
        """Raises Transient where a flavor of the admission does not exist (yet)."""
        while True:
            try:
                return next_step(seen)
            except FlavorMissingError as error:
                name = str(error)
            flavor = await self.caches.flavors.get(name)
            if flavor is None:
                raise Transient(f"resourceflavors {name} not found")
            seen = replace(seen, flavors={**seen.flavors, name: flavor})

    async def _ancestors(self, job: Job) -> tuple[Workload, ...] | None:
        """The Workloads of the object that Kueue manages and this one belongs to; None where it belongs to none."""
        workloads = self.caches.workloads
        found = await managed_ancestor(
            job.owner,
            job.key[0],
            self._ancestor,
            managed=lambda one: bool(one.queue or workloads.by_index("owner", one.uid)),
        )
        return tuple(workloads.by_index("owner", found.uid)) if found is not None else None

    async def _ancestor(self, resource: Resource, namespace: str, name: str) -> Ancestor | None:
        obj = await get_or_none(self._client, resource, name, namespace=namespace)
        return stored_ancestor(obj) if obj is not None else None

    async def _release(self, key: Key) -> None:
        """A Workload whose AppWrapper is gone, and that the garbage collector has deleted."""
        workload = self.caches.workloads.get(*key)
        if (
            workload is not None
            and workload.held
            and workload.deleting
            and not self.caches.jobs.by_index("uid", workload.owner)
        ):
            await self._writing.release(workload)
