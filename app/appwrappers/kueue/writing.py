"""Writes what a step of the workload controller asks for. Each write names the version that it rests upon."""

from __future__ import annotations

from app.appwrappers.kueue.model import (
    ADMISSION_GATED_BY,
    JOB_UID,
    PAST_SECONDS,
    PAST_SECONDS_V1BETA1,
    RESOURCE_IN_USE,
    WORKLOADS_V1BETA1,
)
from app.appwrappers.kueue.priorities import Priorities
from app.appwrappers.kueue.steps import Step
from app.appwrappers.kueue.stored import Job, Workload
from app.appwrappers.kueue.workloads import new_workload, owner_of, priority_of, spec_of
from app.appwrappers.model import APP_WRAPPERS
from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.events import EventRecorder, Regarding
from app.kube.owners import controller_of
from app.kube.resources import Resource
from app.kube.retry import get_or_none, if_there
from app.kube.writing import finalized, merge
from app.wire import JSON, changed_fields

_LATER = 10.0


class Writing:
    """`resource` are Workloads in the version that is served."""

    def __init__(
        self, client: KubeClient, resource: Resource, priorities: Priorities, events: EventRecorder | None
    ) -> None:
        self._client, self._resource, self._priorities, self._events = client, resource, priorities, events

    async def write(self, job: Job, step: Step) -> None:
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

    def refused(self, job: Job, why: str) -> None:
        """There is no Workload as there should be: it waits for ever, unless something changes."""
        if self._events is not None:
            regarding = Regarding.of(APP_WRAPPERS, job.key, job.uid)
            self._events.record(regarding, "Warning", reason="WorkloadRefused", message=why)

    async def release(self, workload: Workload) -> None:
        """Take our finalizer off a Workload, so that it can go."""
        await if_there(self._patch(workload, finalized(workload.finalizers, RESOURCE_IN_USE, present=False)))

    async def _create(self, job: Job) -> str:
        body = new_workload(job, self._resource, await self._priorities.of(job))
        try:
            made = await self._client.create(self._resource, body, namespace=job.key[0])
        except ApiError as error:
            if error.conflict:
                await self._look_at(job, body["metadata"]["name"])
            raise
        return f"{job.key[0]}/{made['metadata']['name']}"

    async def _look_at(self, job: Job, name: str) -> None:
        """Raises Transient where the Workload of this name is of others. A cache may lack our own yet."""
        found = await get_or_none(self._client, self._resource, name, namespace=job.key[0])
        if found is not None and controller_of(found["metadata"]).get("uid") != job.uid:
            raise Transient(f"Workload {name} exists and is not of this AppWrapper: delete it", delay=_LATER)

    async def _workload(self, job: Job, step: Step, workload: Workload) -> None:
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

    async def _change(self, job: Job, action: str) -> JSON:
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

    async def _run_or_stop(self, job: Job, step: Step) -> None:
        starts, infos = step.action == "start", list(step.infos)
        operations: list[JSON] = [{"op": "add", "path": "/spec/suspend", "value": not starts}]
        for index, (component, status) in enumerate(zip(job.components, job.statuses, strict=True)):
            mine = [infos.pop(0) for _ in status["podSets"]] if starts else []
            path = f"/spec/components/{index}/podSetInfos"
            if mine:
                operations.append({"op": "add", "path": path, "value": mine})
            elif "podSetInfos" in component and step.workload is not None:
                operations.append({"op": "remove", "path": path})
        namespace, name = job.key
        await self._client.patch(
            APP_WRAPPERS, name, operations, patch_type="json", namespace=namespace, version=job.version
        )

    async def _patch(self, workload: Workload, change: JSON, *, subresource: str = "") -> JSON:
        return await merge(self._client, self._resource, workload, change, subresource=subresource)
