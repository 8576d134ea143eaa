"""Runs Jobs: one Pod at a time until one has succeeded, or too many have failed."""

from __future__ import annotations

from app.devtools.sandbox.standins.reconciling import reconciling
from app.devtools.sandbox.standins.replicas import create_pod, owner_key, phase, pods_of, write_status
from app.kube.client import KubeClient
from app.kube.resources import JOBS
from app.kube.store import Key, Store
from app.text import stamp
from app.wire import JSON


class JobRunner:
    """`jobs` and `pods` hold whole objects; they only say when to look. Parallelism and deadlines are not looked at."""

    def __init__(self, client: KubeClient, jobs: Store[JSON], pods: Store[JSON]) -> None:
        self._client = client
        self._jobs = jobs
        self.controller = reconciling("jobs", self._reconcile, jobs)
        pods.subscribe(lambda _, __, old, new: self._pod_changed(new if new is not None else old))

    def _pod_changed(self, pod: JSON | None) -> None:
        key = owner_key(pod, JOBS)
        if key is not None:
            self.controller.enqueue(key)

    async def _reconcile(self, key: Key) -> None:
        job = self._jobs.get(*key)
        if job is None or job["metadata"].get("deletionTimestamp") or _has_ended(job):
            return
        pods = await pods_of(self._client, job)
        succeeded = sum(phase(pod) == "Succeeded" for pod in pods)
        failed = sum(phase(pod) == "Failed" for pod in pods)
        given_up = failed > int(job["spec"].get("backoffLimit", 6))
        if not succeeded and not given_up and succeeded + failed == len(pods):
            await create_pod(self._client, JOBS, job)
            return
        status: JSON = {
            "startTime": (job.get("status") or {}).get("startTime") or stamp(),
            "active": len(pods) - succeeded - failed,
            "succeeded": succeeded,
            "failed": failed,
            "ready": 0,
            "terminating": 0,
            "uncountedTerminatedPods": {},
        }
        if succeeded:
            status |= {"completionTime": stamp(), "conditions": _conditions("SuccessCriteriaMet", "Complete")}
        elif given_up:
            status["conditions"] = _conditions("FailureTarget", "Failed")
        await write_status(self._client, JOBS, job, status)


def _conditions(*kinds: str) -> list[JSON]:
    """An API server takes the end of a Job only with the condition that foretells it."""
    now = stamp()
    return [{"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now} for kind in kinds]


def _has_ended(job: JSON) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)
