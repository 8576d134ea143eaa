"""The workload controller: it makes the Workload of an AppWrapper with a queue, and starts and stops it as Kueue says.

It stands in for the one that is part of Kueue since 0.11; of the two, one may run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

import structlog

from app.appwrappers.ancestors import Ancestor, managed_ancestor, stored_ancestor
from app.appwrappers.controller.stored import AppWrapper
from app.appwrappers.kueue.caches import KueueCaches, Priorities, jobs_of
from app.appwrappers.kueue.model import (
    ADMISSION_GATED_BY,
    JOB_UID,
    PAST_SECONDS,
    PAST_SECONDS_V1BETA1,
    RESOURCE_IN_USE,
    WORKLOADS,
    WORKLOADS_V1BETA1,
)
from app.appwrappers.kueue.steps import Step, WorkloadState, next_step
from app.appwrappers.kueue.stored import Workload
from app.appwrappers.kueue.workloads import new_workload, owner_of, priority_of, spec_of
from app.appwrappers.model import APP_WRAPPERS
from app.errors import ApiError, Terminal, Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.discovery import Discovery
from app.kube.events import EventRecorder, Regarding
from app.kube.kit import Kit, declare
from app.kube.resources import Resource, controller_of
from app.kube.retry import get_or_none, if_there
from app.kube.store import Key, Store
from app.kube.writing import finalized, merge
from app.settings.reconciling import ControllerContext
from app.text import utc_now
from app.wire import JSON, changed_fields

log = structlog.get_logger(__name__)
_NAME = "appwrapper-workloads"
_TAKEN_PAUSE = 10.0
"""Seconds until a name is tried again that a Workload of others has."""
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
        # What is declared once Kueue is there has its series before.
        declare(lambda client: self._reconcile(idle := Kit(client), jobs_of(idle), WORKLOADS))
        kit.beside(_NAME, self._begin)

    async def _begin(self) -> None:
        resource = await self._served()
        self._problems = []
        self._reconcile(self._kit, self._jobs, resource)

    def _reconcile(self, kit: Kit, jobs: Store[AppWrapper], workloads: Resource) -> None:
        caches = KueueCaches(kit, jobs, workloads=workloads)
        work = _Work(kit, caches, workloads, self._now)
        kit.reconcile(_NAME, work.reconcile, keys=caches.jobs.keys, wakes=caches.wakes())

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
    """Keeps the Workload of each AppWrapper, in a version of the kind that is served."""

    def __init__(self, kit: Kit, caches: KueueCaches, resource: Resource, now: Callable[[], datetime]) -> None:
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

    async def _step(self, job: AppWrapper) -> float:
        """The seconds until another is due; 0 where a change asks for it."""
        caches = self.caches
        workloads = sorted(caches.workloads.by_index("owner", job.uid), key=lambda workload: workload.key)
        prebuilt = caches.workloads.get(job.key[0], job.prebuilt) if job.prebuilt else None
        ancestors = await self._ancestors(job) if job.owner else None
        try:
            step = await self._next(WorkloadState(job, tuple(workloads), prebuilt, self._now(), ancestors))
        except (ValueError, TypeError, AttributeError, KeyError) as error:  # of a shape that no Workload takes
            raise Terminal(f"its podSets cannot be put into a Workload: {error}") from error
        if step.action:
            await self._writing.write(job, step)
        return step.again

    async def _next(self, seen: WorkloadState) -> Step:
        """Raises Transient where a flavor of the admission does not exist (yet)."""
        steps = next_step(seen)
        try:
            name = next(steps)
            while (flavor := await self.caches.flavors.get(name)) is not None:
                name = steps.send(flavor)
        except StopIteration as end:
            step: Step = end.value
            return step
        raise Transient(f"resourceflavors {name} not found")

    async def _ancestors(self, job: AppWrapper) -> tuple[Workload, ...] | None:
        """The Workloads of the object that Kueue manages and this one belongs to; None where it belongs to none."""
        workloads = self.caches.workloads
        ancestor = await managed_ancestor(
            job.owner,
            job.key[0],
            self._ancestor,
            managed=lambda job: bool(job.queue or workloads.by_index("owner", job.uid)),
        )
        return tuple(workloads.by_index("owner", ancestor.uid)) if ancestor is not None else None

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


class Writing:
    """Writes what a step asks for, each under the version that it rests upon.

    `resource` are Workloads in the version that is served.
    """

    def __init__(
        self, client: KubeClient, resource: Resource, priorities: Priorities, events: EventRecorder | None
    ) -> None:
        self._client, self._resource, self._priorities, self._events = client, resource, priorities, events

    async def write(self, job: AppWrapper, step: Step) -> None:
        """Raises ApiError; a conflict says that the object has changed meanwhile."""
        event = step.event
        if step.action in ("start", "stop"):
            await self._run_or_stop(job, step)
        elif step.action == "create":
            event = ("CreatedWorkload", f"Created Workload: {await self._create(job)}")
        elif step.workload is not None:
            await self._workload(job, step, step.workload)
        if event is not None and self._events is not None:
            regarding = Regarding.of(APP_WRAPPERS, job.key, job.uid)
            self._events.record(regarding, "Normal", reason=event[0], message=event[1])

    def refused(self, job: AppWrapper, why: str) -> None:
        """There is no Workload as there should be: it waits for ever, unless something changes."""
        if self._events is not None:
            regarding = Regarding.of(APP_WRAPPERS, job.key, job.uid)
            self._events.record(regarding, "Warning", reason="WorkloadRefused", message=why)

    async def release(self, workload: Workload) -> None:
        """Take our finalizer off a Workload, so that it can go."""
        await if_there(self._patch(workload, finalized(workload.finalizers, RESOURCE_IN_USE, present=False)))

    async def _create(self, job: AppWrapper) -> str:
        body = new_workload(job, self._resource, await self._priorities.of(job))
        try:
            made = await self._client.create(self._resource, body, namespace=job.key[0])
        except ApiError as error:
            if error.conflict:
                await self._look_at(job, body["metadata"]["name"])
            raise
        return f"{job.key[0]}/{made['metadata']['name']}"

    async def _look_at(self, job: AppWrapper, name: str) -> None:
        """Raises Transient where the Workload of this name is of others. A cache may lack our own yet."""
        workload = await get_or_none(self._client, self._resource, name, namespace=job.key[0])
        if workload is not None and controller_of(workload["metadata"]).get("uid") != job.uid:
            raise Transient(f"Workload {name} exists and is not of this AppWrapper: delete it", delay=_TAKEN_PAUSE)

    async def _workload(self, job: AppWrapper, step: Step, workload: Workload) -> None:
        if step.action == "delete":
            request = self._client.delete(self._resource, workload.key[1], namespace=workload.key[0], uid=workload.uid)
            await if_there(request)
        elif step.action == "release":
            await self.release(workload)
        elif step.action == "status":
            status = changed_fields(workload.status, step.status or {})
            if PAST_SECONDS in status and self._resource.version == WORKLOADS_V1BETA1.version:
                status[PAST_SECONDS_V1BETA1] = status.pop(PAST_SECONDS)
            await self._patch(workload, {"status": status}, subresource="status")
        else:
            await self._patch(workload, await self._change(job, step.action))

    async def _change(self, job: AppWrapper, action: str) -> JSON:
        if action == "own":
            return {"metadata": {"labels": {JOB_UID: job.uid}, "ownerReferences": [owner_of(job)]}}
        if action == "gate":
            return {"metadata": {"annotations": {ADMISSION_GATED_BY: job.annotations.get(ADMISSION_GATED_BY)}}}
        if action == "queue":
            return {"spec": {"queueName": job.queue}}
        priority = await self._priorities.of(job)
        if action == "priority":
            return {"spec": priority_of(self._resource, priority)}
        return {"spec": {"maximumExecutionTimeSeconds": None} | spec_of(job, self._resource, priority)}

    async def _run_or_stop(self, job: AppWrapper, step: Step) -> None:
        starts, infos = step.action == "start", list(step.infos)
        operations: list[JSON] = [{"op": "add", "path": "/spec/suspend", "value": not starts}]
        for index, (component, status) in enumerate(zip(job.components, job.component_statuses, strict=True)):
            mine = [infos.pop(0) for _ in status["podSets"]] if starts else []
            path = f"/spec/components/{index}/podSetInfos"
            if mine:
                operations.append({"op": "add", "path": path, "value": mine})
            elif "podSetInfos" in component and step.workload is not None:
                operations.append({"op": "remove", "path": path})
        namespace, name = job.key
        await self._client.patch(
            APP_WRAPPERS, name, operations, patch_type="json", namespace=namespace, version=str(job.version)
        )

    async def _patch(self, workload: Workload, change: JSON, *, subresource: str = "") -> JSON:
        return await merge(self._client, self._resource, workload, change, subresource=subresource)
