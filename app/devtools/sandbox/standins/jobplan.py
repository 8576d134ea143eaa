"""What is next for a Job: Pods to make and to end, and its status. Pure; the clock is an argument.

Not looked at: podFailurePolicy, successPolicy, podReplacementPolicy. A failed Pod is replaced at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from app.devtools.sandbox.standins.dependents import is_ready, phase
from app.devtools.sandbox.standins.jobindexes import exhausted, indexes_of, read_indexes, shown_indexes
from app.text import moment, stamp
from app.wire import JSON

_FINAL = ("Succeeded", "Failed")
_CONTROLLER = "kubernetes.io/job-controller"


@dataclass(frozen=True, slots=True)
class Step:
    """`create` has an index for each Pod to make, None where the Job is not Indexed; `delete` has Pods.

    The Job is looked at again after `wake` seconds; one that has `expired` is deleted.
    """

    status: JSON
    create: tuple[int | None, ...] = ()
    delete: tuple[JSON, ...] = ()
    wake: float | None = None
    expired: bool = False


class _Tally:
    """The Pods of a Job by what has become of them: one that is being deleted has failed unless it had succeeded."""

    def __init__(self, job: JSON, pods: list[JSON]) -> None:
        spec, before = job["spec"], job.get("status") or {}
        succeeded = [pod for pod in pods if phase(pod) == "Succeeded"]
        ending = [pod for pod in pods if phase(pod) not in _FINAL and pod["metadata"].get("deletionTimestamp")]
        failed = [*ending, *(pod for pod in pods if phase(pod) == "Failed")]
        self.indexed = spec.get("completionMode") == "Indexed"
        self.terminating = len(ending)
        self.active = [pod for pod in pods if phase(pod) not in _FINAL and not pod["metadata"].get("deletionTimestamp")]
        self.done = indexes_of(succeeded) | read_indexes(before.get("completedIndexes"))
        self.lost = exhausted(failed, spec.get("backoffLimitPerIndex")) | read_indexes(before.get("failedIndexes"))
        self.lost -= self.done
        self.failed = max(len(failed), int(before.get("failed") or 0))
        counted = len(self.done) if self.indexed else len(succeeded)
        self.succeeded = max(counted, int(before.get("succeeded") or 0))

    @property
    def ends(self) -> bool:
        """Whether Pods are still to end."""
        return bool(self.active or self.terminating)


def is_ours(job: JSON) -> bool:
    """Whether no other controller has the Job."""
    return (job["spec"].get("managedBy") or _CONTROLLER) == _CONTROLLER


def next_step(job: JSON, pods: list[JSON], now: datetime) -> Step:
    """`pods` are all that the Job has made, also those that are being deleted, and that are gone: as they were last."""
    status: JSON = job.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or []}
    if any(_holds(conditions, kind) for kind in ("Complete", "Failed")):
        return _expiry(job, conditions, now)
    tally = _Tally(job, pods)
    # The deadline does not count while the Job is suspended, and counts from zero when it is resumed.
    started = None if _holds(conditions, "Suspended") else status.get("startTime")
    end = _verdict(job, tally, conditions, _until(started, job["spec"].get("activeDeadlineSeconds"), now))
    if end is not None:
        return _ending(job, tally, conditions, end, now)
    if job["spec"].get("suspend"):
        _set(conditions, "Suspended", "True", ("JobSuspended", "Job suspended"), now)
        return Step(_status(job, tally, conditions, status.get("startTime"), gone=True), delete=tuple(tally.active))
    if _holds(conditions, "Suspended"):
        _set(conditions, "Suspended", "False", ("JobResumed", "Job resumed"), now)
    started = started or stamp(now)
    wanted = _wanted(job, tally)
    surplus = tally.active[wanted:]
    return Step(
        _status(job, tally, conditions, started),
        create=_missing(tally, wanted - len(tally.active)),
        delete=tuple(surplus),
        wake=_until(started, job["spec"].get("activeDeadlineSeconds"), now),
    )


def _wanted(job: JSON, tally: _Tally) -> int:
    """How many Pods are to be active."""
    spec = job["spec"]
    parallelism = int(spec.get("parallelism", 1))
    if spec.get("completions") is not None:
        return max(0, min(parallelism, int(spec["completions"]) - tally.succeeded - len(tally.lost)))
    return len(tally.active[:parallelism]) if tally.succeeded else parallelism


def _missing(tally: _Tally, count: int) -> tuple[int | None, ...]:
    if not tally.indexed:
        return (None,) * max(0, count)
    taken = tally.done | tally.lost | indexes_of(tally.active)
    found: list[int | None] = []
    index = 0
    while len(found) < count:
        if index not in taken:
            found.append(index)
        index += 1
    return tuple(found)


def _verdict(job: JSON, tally: _Tally, conditions: JSON, left: float | None) -> tuple[str, str, str] | None:
    """How the Job ends, with reason and message; None while it goes on. What was once decided stays.

    `left` are the seconds to its deadline.
    """
    for kind, final in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
        if _holds(conditions, kind):
            return final, conditions[kind].get("reason") or "", conditions[kind].get("message") or ""
    spec = job["spec"]
    limit, completions = int(spec.get("backoffLimit", 6)), spec.get("completions")
    restarted = _restarts(tally.active) if spec["template"]["spec"].get("restartPolicy") == "OnFailure" else 0
    if tally.failed > limit or (restarted and restarted >= limit):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if left == 0 and not spec.get("suspend"):
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    most = spec.get("maxFailedIndexes")
    if most is not None and len(tally.lost) > most:
        return "Failed", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if completions is not None and tally.succeeded + len(tally.lost) >= completions:
        if tally.lost:
            return "Failed", "FailedIndexes", "Job has failed indexes"
        return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
    if completions is None and tally.succeeded and not tally.active:
        return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
    return None


def _ending(job: JSON, tally: _Tally, conditions: JSON, end: tuple[str, str, str], now: datetime) -> Step:
    """The end is foretold by a condition first, and comes when no Pod is left."""
    kind, *why = end
    foretold = "FailureTarget" if kind == "Failed" else "SuccessCriteriaMet"
    _set(conditions, foretold, "True", (why[0], why[1]), now)
    started = (job.get("status") or {}).get("startTime") or stamp(now)
    if tally.ends:
        return Step(_status(job, tally, conditions, started), delete=tuple(tally.active))
    _set(conditions, kind, "True", (why[0], why[1]), now)
    ended = {"completionTime": stamp(now)} if kind == "Complete" else {}
    return Step({**_status(job, tally, conditions, started), **ended})


def _expiry(job: JSON, conditions: JSON, now: datetime) -> Step:
    """What is left of a Job that has ended: its time to live."""
    end = next(conditions[kind] for kind in ("Complete", "Failed") if _holds(conditions, kind))
    left = _until(end.get("lastTransitionTime"), job["spec"].get("ttlSecondsAfterFinished"), now)
    return Step({}, wake=left or None, expired=left == 0)


def _status(job: JSON, tally: _Tally, conditions: JSON, started: str | None, *, gone: bool = False) -> JSON:
    """`gone` says that the active Pods are being deleted. None removes a field."""
    active = [] if gone else tally.active
    return {
        "startTime": started,
        "active": len(active) or None,
        "ready": sum(map(is_ready, active)),
        "succeeded": tally.succeeded or None,
        "failed": tally.failed or None,
        "terminating": tally.terminating,
        "completedIndexes": shown_indexes(tally.done) or None if tally.indexed else None,
        "failedIndexes": shown_indexes(tally.lost) if job["spec"].get("backoffLimitPerIndex") is not None else None,
        "uncountedTerminatedPods": {},
        "conditions": list(conditions.values()) or None,
    }


def _restarts(pods: list[JSON]) -> int:
    """How often containers of running Pods were started again."""
    statuses = [pod.get("status") or {} for pod in pods]
    fields = ("containerStatuses", "initContainerStatuses")
    return sum(int(c.get("restartCount") or 0) for one in statuses for field in fields for c in one.get(field) or [])


def _until(since: str | None, seconds: int | None, now: datetime) -> float | None:
    """Seconds that are left of so many since a time, 0 where it is over; None where nothing ends."""
    began = moment(since)
    if began is None or seconds is None:
        return None
    return max(0.0, (began + timedelta(seconds=seconds) - now).total_seconds())


def _holds(conditions: JSON, kind: str) -> bool:
    return bool((conditions.get(kind) or {}).get("status") == "True")


def _set(conditions: JSON, kind: str, state: str, why: tuple[str, str], now: datetime) -> None:
    if (conditions.get(kind) or {}).get("status") != state:
        times = dict.fromkeys(("lastProbeTime", "lastTransitionTime"), stamp(now))
        conditions[kind] = {"type": kind, "status": state, **times, "reason": why[0], "message": why[1]}
