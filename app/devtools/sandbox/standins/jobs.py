"""The Job controller: does what `jobplan` says, and remembers Pods that went before they were counted.

Finished Pods are remembered while this runs, not by finalizers: a Pod that is deleted while no controller runs counts
only as far as the status has it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from app.devtools.sandbox.standins.dependents import create_pod, owned, pod_of
from app.devtools.sandbox.standins.jobindexes import put_index
from app.devtools.sandbox.standins.jobplan import Step, is_ours, next_step
from app.devtools.sandbox.standins.reconciling import Watched, delete, reconciling, write_status
from app.kube.client import KubeClient
from app.kube.owners import controller_of
from app.kube.resources import JOBS, PODS
from app.kube.store import EventType, Key
from app.wire import JSON


class JobRunner:
    """Runs the Pods of Jobs to their end."""

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        self._jobs, pods = watched.store(JOBS), watched.store(PODS)
        self._gone: dict[str, dict[str, JSON]] = {}
        """The Pods that a Job (its UID) has lost, by their UIDs."""
        self._dismissed: set[str] = set()
        """UIDs of Pods that do not count, because this controller ended them before the Job was decided."""
        pods.subscribe(self._on_pod)
        self._jobs.subscribe(self._on_job)
        self.controller = reconciling("jobs", self._reconcile, self._jobs, owned=pods, kind=JOBS.kind)

    def _on_pod(self, event: EventType, _key: Key, old: JSON | None, new: JSON | None) -> None:
        last = new or old
        if event != "DELETED" or last is None or not (owner := controller_of(last["metadata"])):
            return
        uid = last["metadata"]["uid"]
        if uid in self._dismissed:
            self._dismissed.discard(uid)
            return
        status: JSON = last.get("status") or {}
        ended = {**last, "status": {**status, "phase": "Succeeded" if status.get("phase") == "Succeeded" else "Failed"}}
        if owner.get("kind") == JOBS.kind:
            self._gone.setdefault(owner["uid"], {})[uid] = ended

    def _on_job(self, event: EventType, _key: Key, old: JSON | None, new: JSON | None) -> None:
        last = new or old
        if event == "DELETED" and last is not None:
            self._gone.pop(last["metadata"]["uid"], None)

    async def _reconcile(self, key: Key) -> float | None:
        if self._jobs.get(*key) is None:
            return None
        job = await self._client.get(JOBS, key[1], namespace=key[0])  # with what was written last
        if job["metadata"].get("deletionTimestamp") or not is_ours(job):
            return None
        pods = [one for one in await owned(self._client, PODS, job) if one["metadata"]["uid"] not in self._dismissed]
        pods.sort(key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
        listed = {pod["metadata"]["uid"] for pod in pods}
        gone = self._gone.get(job["metadata"]["uid"], {})
        step = next_step(job, [*(gone[uid] for uid in gone if uid not in listed), *pods], datetime.now(UTC))
        if step.expired:
            await delete(self._client, JOBS, job)
            return None
        await self._act(job, step)
        return step.wake

    async def _act(self, job: JSON, step: Step) -> None:
        decided = any(
            one["type"] in ("FailureTarget", "SuccessCriteriaMet") for one in step.status.get("conditions") or []
        )
        if step.status:
            await write_status(self._client, JOBS, job, step.status)
        for pod in step.delete:
            if not decided:
                self._dismissed.add(pod["metadata"]["uid"])
            await delete(self._client, PODS, pod)
        for index in step.create:
            made = pod_of(JOBS, job)
            if index is not None:
                put_index(made, job["metadata"]["name"], index)
            await create_pod(self._client, job, made)
