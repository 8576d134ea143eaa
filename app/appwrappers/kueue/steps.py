"""What has to be written next, so that an AppWrapper and its Workload agree. Pure; one write a step.

Facts: the order of the questions and the reasons of conditions are those of Kueue's generic reconciler. What differs: a
Workload that is being deleted keeps its quota until the AppWrapper has no Pods any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from app.appwrappers.controller.stored import AppWrapper
from app.appwrappers.kueue import model as kueue
from app.appwrappers.kueue.stored import Workload
from app.appwrappers.kueue.workloads import OfFlavors, PermanentError, fits, is_gated_alike, pod_set_infos
from app.appwrappers.model import QUOTA_RESERVED
from app.kube.conditions import Truth, changed_at, condition, set_condition
from app.wire import JSON

_REQUEUED = (kueue.EVICTED_BY_PREEMPTION, kueue.EVICTED_BY_NODE_FAILURES)
_BEHIND = timedelta(seconds=3)
"""The time from the end of a turn to a new Workload. Kueue looks at most a second after a Workload is gone which of
those that wait fit now: a new one would get the quota before them. Times of conditions are whole seconds."""

Action = Literal[
    "", "create", "delete", "release", "own", "respec", "priority", "queue", "gate", "status", "start", "stop"
]


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """`workloads` are those whose controller is the AppWrapper, or was one of its name; `prebuilt` the one it names.

    `ancestors` are the Workloads of the object that Kueue manages and that the AppWrapper belongs to; None where it
    belongs to none.
    """

    job: AppWrapper
    workloads: tuple[Workload, ...]
    prebuilt: Workload | None
    now: datetime
    ancestors: tuple[Workload, ...] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """`action` is done to the workload, or ("start", "stop") to the AppWrapper. `event` is a reason and a message.

    Without one, the next step is due in `again` seconds; 0 is when something changes. `status` is the whole status for
    "status", `infos` the podSetInfos for "start". "stop" clears these where there is a workload. "respec" and
    "priority" replace what the spec says of podSets, or of priority.
    """

    action: Action = ""
    workload: Workload | None = None
    status: JSON | None = None
    infos: tuple[JSON, ...] = ()
    event: tuple[str, str] | None = None
    again: float = 0.0


def next_step(seen: WorkloadState) -> OfFlavors[Step]:
    job = seen.job
    if job.deleting:
        return _released(seen)
    if seen.ancestors is not None:
        return _of_ancestor(job, seen.ancestors)
    if not job.queue or not job.component_statuses:
        return Step()
    workload, step = _prebuilt(seen) if job.prebuilt else _one_workload(seen)
    if step is not None:
        return step
    return _without_workload(seen) if workload is None else (yield from _of_workload(seen, workload))


def _without_workload(seen: WorkloadState) -> Step:
    job = seen.job
    if not job.suspend and not job.finished:
        return _stop(None, "Missing Workload; unable to restore pod templates")
    if job.active or job.finished or job.prebuilt:
        return Step()
    left = changed_at(job.status, QUOTA_RESERVED, now=seen.now - _BEHIND) + _BEHIND - seen.now
    if timedelta(0) < left <= _BEHIND:
        return Step(again=left.total_seconds())
    return Step("create", event=("CreatedWorkload", ""))


def _of_ancestor(job: AppWrapper, workloads: tuple[Workload, ...]) -> Step:
    """It has no Workload of its own, and runs within the quota of another: while that one is admitted."""
    if job.suspend or job.finished or any(workload.admitted and not workload.finished for workload in workloads):
        return Step()
    return _stop(None, "The Workload of the object that it belongs to is not admitted")


def _released(seen: WorkloadState) -> Step:
    """Its Workloads go with it; the garbage collector does that, but for our finalizer."""
    held = next((workload for workload in seen.workloads if workload.held and not seen.job.active), None)
    return Step("release", held) if held else Step()


def _prebuilt(seen: WorkloadState) -> tuple[Workload | None, Step | None]:
    job, workload = seen.job, seen.prebuilt
    if workload is None or workload.owner not in ("", job.uid):
        return None, None
    if not workload.owner:
        # To own it is to replace its owners: what others own is not taken over.
        return (None, None) if workload.owned else (workload, Step("own", workload))
    if not workload.finished and not fits(job, workload):
        message = "The prebuilt workload is out of sync with its user job"
        return None, _finish(seen, workload, kueue.OUT_OF_SYNC, message)
    return workload, None


def _one_workload(seen: WorkloadState) -> tuple[Workload | None, Step | None]:
    """The Workload that fits, once all others are gone."""
    job = seen.job
    match = next((workload for workload in seen.workloads if workload.finished or fits(job, workload)), None)
    others = [workload for workload in seen.workloads if workload is not match]
    if match is None and others:
        first = others[0]
        if not job.suspend and not job.finished:
            return None, _stop(first, "No matching Workload; restoring pod templates according to existent Workload")
        if job.suspend and not first.reserved and first.owner == job.uid and not first.deleting:
            event = ("UpdatedWorkload", f"Updated not matching Workload for suspended job: {_named(first)}")
            return None, Step("respec", first, event=event)
    for workload in others:
        if not workload.deleting:
            return None, Step(
                "delete", workload, event=("DeletedWorkload", f"Deleted not matching Workload: {_named(workload)}")
            )
        if workload.held and not (job.active and workload.owner == job.uid):
            return None, Step("release", workload)
    return (None, Step()) if others and match is None else (match, None)


def _of_workload(seen: WorkloadState, workload: Workload) -> OfFlavors[Step]:
    job = seen.job
    if workload.finished:
        return Step("release", workload) if workload.held else Step()
    if workload.deleting:
        if not job.suspend:
            return _stop(workload, "Workload is deleted")
        return Step("release", workload) if workload.held and not job.active else Step()
    if job.finished:
        reason = kueue.SUCCEEDED if job.finished == "Succeeded" else kueue.FAILED
        message = condition(job.status, "QuotaReserved").get("message") or f"AppWrapper {job.finished.lower()}"
        return _finish(seen, workload, reason, message)
    if not is_gated_alike(job, workload):
        return Step("gate", workload)
    if workload.priority_class != job.labels.get(kueue.PRIORITY_CLASS, "") and _may_change_priority(job, workload):
        return Step(
            "priority", workload, event=("UpdatedWorkload", f"Updated workload priority class: {_named(workload)}")
        )
    status = _reported(seen, workload)
    if status is not None:
        return Step("status", workload, status)
    if workload.eviction:
        return _evicted(seen, workload)
    return (yield from _suspended(seen, workload)) if job.suspend else _running(workload)


def _may_change_priority(job: AppWrapper, workload: Workload) -> bool:
    """While quota is reserved, Kueue lets a class be replaced, but neither added nor taken away."""
    return not workload.reserved or bool(workload.priority_class and job.labels.get(kueue.PRIORITY_CLASS))


def _reported(seen: WorkloadState, workload: Workload) -> JSON | None:
    """The status with what the AppWrapper says of its Pods; None where it says that already."""
    job, status = seen.job, dict(workload.status)
    counts = {pod_set.get("name") or "main": pod_set.get("count", 1) for pod_set in workload.pod_sets}
    reported = {pod_set["name"]: pod_set["count"] for pod_set in job.status.get("reclaimablePods") or ()}
    reclaimable = [{"name": name, "count": min(reported[name], counts[name])} for name in counts if reported.get(name)]
    if workload.admitted and reclaimable != (status.get("reclaimablePods") or []):
        return status | {"reclaimablePods": reclaimable}
    ready = condition(status, kueue.PODS_READY)
    if not ready and (job.suspend or not workload.admitted):
        return None
    truth, reason, message = _readiness(job, workload, ready)
    if (ready.get("status"), ready.get("reason")) == (truth, reason):
        return None
    return _with(status, kueue.PODS_READY, truth == "True", reason, message, seen.now)


def _readiness(job: AppWrapper, workload: Workload, ready: JSON) -> tuple[Truth, str, str]:
    """The condition `PodsReady` as Kueue writes it; after a failure, it times the recovery by the reason."""
    reason = ready.get("reason")
    if workload.admitted and not job.suspend:
        if job.ready:
            again = reason in ("WaitForRecovery", "Recovered")
            return "True", "Recovered" if again else "Started", "All pods reached readiness and the workload is running"
        if ready.get("status") == "True" or reason == "WaitForRecovery":
            return "False", "WaitForRecovery", "At least one pod has failed, waiting for recovery"
    return "False", "WaitForStart", "Not all pods are ready or succeeded"


def _evicted(seen: WorkloadState, workload: Workload) -> Step:
    job, eviction = seen.job, workload.eviction
    message, reason = eviction.get("message") or "", eviction.get("reason") or "Evicted"
    if not job.suspend:
        return _stop(workload, message or reason)
    # MultiKueue's check asks for the eviction where the other cluster is lost, and no status comes from there.
    elsewhere = job.active_elsewhere and reason != kueue.EVICTED_BY_CHECK
    if not workload.reserved or job.active or elsewhere:
        return Step()
    status = dict(workload.status) | {"admission": None, "reclaimablePods": None}
    status = _with(status, kueue.REQUEUED, reason in _REQUEUED, reason, message, seen.now)
    status = _with(status, kueue.QUOTA_RESERVED, False, "Pending", message, seen.now)
    if condition(status, kueue.ADMITTED):
        if workload.admitted:
            status[kueue.PAST_SECONDS] = _admitted_seconds(status, seen.now)
        status = _with(status, kueue.ADMITTED, False, kueue.NO_RESERVATION, "The workload has no reservation", seen.now)
    return Step("status", workload, status)


def _admitted_seconds(status: JSON, now: datetime) -> int:
    """Whole seconds of all admissions so far, as Kueue counts them towards `maximumExecutionTimeSeconds`."""
    past = status.get(kueue.PAST_SECONDS) or status.get(kueue.PAST_SECONDS_V1BETA1) or 0
    return past + max(0, int((now - changed_at(status, kueue.ADMITTED, now=now)).total_seconds()))


def _suspended(seen: WorkloadState, workload: Workload) -> OfFlavors[Step]:
    job = seen.job
    if workload.admitted:
        if job.active:  # a user has suspended it; it starts again when its Pods are gone
            return Step()
        try:
            infos = yield from pod_set_infos(workload)
        except PermanentError as error:
            return _finish(seen, workload, kueue.FAILED_TO_START, str(error))
        queue = (workload.status.get("admission") or {}).get("clusterQueue", "")
        return Step("start", workload, infos=tuple(infos), event=("Started", f"Admitted by clusterQueue {queue}"))
    return Step("queue", workload) if workload.queue != job.queue and not workload.reserved else Step()


def _running(workload: Workload) -> Step:
    return Step() if workload.admitted else _stop(workload, "Not admitted by cluster queue")


def _stop(workload: Workload | None, message: str) -> Step:
    return Step("stop", workload, event=("Stopped", message))


def _finish(seen: WorkloadState, workload: Workload, reason: str, message: str) -> Step:
    status = _with(dict(workload.status), kueue.FINISHED, True, reason, message, seen.now)
    event = ("FinishedWorkload", f"Workload '{_named(workload)}' is declared finished")
    return Step("status", workload, status, event=event)


def _with(status: JSON, kind: str, true: bool, reason: str, message: str, now: datetime) -> JSON:  # noqa: FBT001
    truth: Truth = "True" if true else "False"
    set_condition(status, kind, truth, reason, message, now=now)
    return status


def _named(workload: Workload) -> str:
    return "/".join(workload.key)
