"""The Job controller: does what `jobplan` says, and remembers Pods that went before they were counted.

Finished Pods are remembered while this runs, not by finalizers: a Pod that is deleted while no controller runs counts
only as far as the status has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from app.devtools.sandbox.standins.dependents import create_pod, owned, pod_of
from app.devtools.sandbox.standins.jobindexes import put_index
from app.devtools.sandbox.standins.jobplan import Step, is_ours, next_step
from app.devtools.sandbox.standins.reconciling import Watched, delete, reconciling, write_status
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import JOBS, PODS, controller_of
from app.kube.store import EventType, Key
from app.wire import JSON

_FORETOLD = "SuccessCriteriaMet"


@dataclass(slots=True)
class _Memory:
    """What is remembered of a Job while it is there; Pods by their UIDs."""

    seen: dict[str, JSON] = field(default_factory=dict)
    """Pods that were there when this controller last looked, or that it has made since."""
    gone: dict[str, JSON] = field(default_factory=dict)
    """Pods that went without being ended by this controller, as they were last, with the phase that counts."""
    dismissed: set[str] = field(default_factory=set)
    """Pods that do not count, because this controller ended them before the Job was decided."""

    def look(self, pods: list[JSON]) -> list[JSON]:
        """The Pods that count, those that are gone first; `pods` are all that the API server has of the Job now.

        No watch has to tell that a Pod is gone: it may come later than another Pod would be made in its place.
        """
        present = {pod["metadata"]["uid"]: pod for pod in pods if pod["metadata"]["uid"] not in self.dismissed}
        for uid in self.seen.keys() - present.keys():
            self.gone.setdefault(uid, _ended(self.seen[uid]))
        self.seen = present
        listed = sorted(
            present.values(), key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"])
        )
        return [*(pod for uid, pod in self.gone.items() if uid not in present), *listed]

    def dismiss(self, uid: str) -> None:
        self.dismissed.add(uid)
        self.seen.pop(uid, None)


class JobRunner:
    """Runs the Pods of Jobs to their end."""

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        self._jobs, pods = watched.store(JOBS), watched.store(PODS)
        self._memory: dict[str, _Memory] = {}
        self._foretells = True
        """Whether the API server takes it of every Job that its success is foretold, as Kubernetes 1.31 does."""
        pods.subscribe(self._on_pod)
        self._jobs.subscribe(self._on_job)
        self.controller = reconciling("jobs", self._reconcile, self._jobs, owned=pods, kind=JOBS.kind)

    def _on_pod(self, event: EventType, _key: Key, old: JSON | None, new: JSON | None) -> None:
        """The last state of a Pod, which it may have reached after this controller looked."""
        last = new or old
        if event != "DELETED" or last is None:
            return
        uid = last["metadata"]["uid"]
        memory = self._memory.get(controller_of(last["metadata"]).get("uid", ""))
        if memory is not None and uid not in memory.dismissed:
            memory.gone[uid] = _ended(last)

    def _on_job(self, event: EventType, _key: Key, old: JSON | None, new: JSON | None) -> None:
        last = new or old
        if event == "DELETED" and last is not None:
            self._memory.pop(last["metadata"]["uid"], None)

    async def _reconcile(self, key: Key) -> float | None:
        if self._jobs.get(*key) is None:
            return None
        job = await self._client.get(JOBS, key[1], namespace=key[0])  # with what was written last
        if job["metadata"].get("deletionTimestamp") or not is_ours(job):
            return None
        memory = self._memory.setdefault(job["metadata"]["uid"], _Memory())
        pods = memory.look(await owned(self._client, PODS, job))
        step = next_step(job, pods, datetime.now(UTC))
        if step.expired:
            await delete(self._client, JOBS, job)
            return None
        await self._act(job, step, memory)
        return step.wake

    async def _act(self, job: JSON, step: Step, memory: _Memory) -> None:
        decided = any(one["type"] in ("FailureTarget", _FORETOLD) for one in step.status.get("conditions") or [])
        if step.status:
            await self._write(job, step.status)
        for pod in step.delete:
            if not decided:
                memory.dismiss(pod["metadata"]["uid"])
            await delete(self._client, PODS, pod)
        for index in step.create:
            made = pod_of(JOBS, job)
            if index is not None:
                put_index(made, job["metadata"]["name"], index)
            pod = await create_pod(self._client, job, made)
            memory.seen[pod["metadata"]["uid"]] = pod

    async def _write(self, job: JSON, status: JSON) -> None:
        """Before Kubernetes 1.31, success is foretold of Indexed Jobs with a success policy alone."""
        conditions = status.get("conditions") or []
        if conditions and not self._foretells:
            conditions = [condition for condition in conditions if condition["type"] != _FORETOLD]
            status = {**status, "conditions": conditions}
        try:
            await write_status(self._client, JOBS, job, status)
        except ApiError as error:
            if error.status != 422 or not self._foretells or _FORETOLD not in str(error):
                raise
            self._foretells = False
            await self._write(job, status)


def _ended(pod: JSON) -> JSON:
    """A Pod that is gone, as it counts: one that had not succeeded has failed."""
    status: JSON = pod.get("status") or {}
    return {**pod, "status": {**status, "phase": "Succeeded" if status.get("phase") == "Succeeded" else "Failed"}}
