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
from app.appwrappers.kueue.caches import Caches, jobs_of
from app.appwrappers.kueue.model import WORKLOADS, WORKLOADS_V1BETA1
from app.appwrappers.kueue.priorities import Priorities
from app.appwrappers.kueue.steps import Seen, Step, next_step
from app.appwrappers.kueue.stored import Job, Workload
from app.appwrappers.kueue.writing import Writing
from app.errors import ApiError, Terminal, Transient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.discovery import Discovery
from app.kube.kit import Kit
from app.kube.resources import Resource
from app.kube.retry import get_or_none
from app.kube.store import Key
from app.settings.reconciling import ControllerContext
from app.text import utc_now

log = structlog.get_logger(__name__)
_LOOK = 15.0
"""Seconds between two looks whether Kueue's kinds are served."""
_MISSING = f"{WORKLOADS.plural}.{WORKLOADS.group} are not served (is Kueue installed?)"


def build(context: ControllerContext) -> Kit:
    kit = context.kit()
    WorkloadsOfAppWrappers(kit)
    return kit


class WorkloadsOfAppWrappers:
    """It waits for Kueue's kinds to be served, and watches AppWrappers meanwhile."""

    def __init__(self, kit: Kit, *, now: Callable[[], datetime] = utc_now) -> None:
        self._kit, self._now = kit, now
        self._jobs = jobs_of(kit)
        self._problems = [_MISSING]
        kit.waits_for(lambda: self._problems)
        kit.beside("appwrapper-workloads", self._begin)

    async def _begin(self) -> None:
        resource = await self._served()
        self._problems = []
        caches = Caches(self._kit, self._jobs, workloads=resource)
        work = _Work(self._kit, caches, resource, self._now)
        self._kit.reconcile("appwrapper-workloads", work.reconcile, keys=caches.jobs.keys, wakes=caches.wakes())

    async def _served(self) -> Resource:
        """Workloads in the newest version that is served, as soon as one is."""
        discovery = Discovery(self._kit.client)
        while True:
            for workloads in (WORKLOADS, WORKLOADS_V1BETA1):
                try:
                    if await discovery.resource_of(workloads.api_version, workloads.kind) is not None:
                        return workloads
                except Transient as error:
                    log.info("kinds of Kueue not known", error=str(error))
            await asyncio.sleep(_LOOK)


class _Work:
    def __init__(self, kit: Kit, caches: Caches, resource: Resource, now: Callable[[], datetime]) -> None:
        self._client, self._now, self.caches = kit.client, now, caches
        self._writing = Writing(kit.client, resource, Priorities(kit.client, caches.priorities), kit.events)

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
