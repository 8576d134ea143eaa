"""How Pods and objects have ended: what they say of it, and what the status of an AppWrapper remembers. Pure.

Of Pods the controller keeps why one has failed or is not ready. Kinds with an end of their own repeat failed Pods by
their own policies, so that a failed Pod of theirs is no failure yet. An object that has ended may be cleaned up (a
TTL, the garbage collection of Pods): its end stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from app.appwrappers.model import APP_WRAPPER, APP_WRAPPER_UID, ENDED, POD_SET, RESOURCES_DEPLOYED
from app.appwrappers.sizes import REMARK
from app.kube.conditions import condition, cut_as_stored, is_true, set_condition, status_of
from app.kube.quantity import parse
from app.kube.store import Head, head_of
from app.numbers import whole_or
from app.text import moment, one_line, several
from app.wire import JSON

_CRASH_LOOP = "CrashLoopBackOff"
_USUAL = ("ContainerCreating", "PodInitializing")
_LONGEST = 256
"""Characters of what a Pod or container says of itself."""
Ending = Literal["", "succeeded", "failed"]
SUCCEEDED, FAILED, FAILED_FOR_GOOD = "Succeeded", "Failed", "TerminalExitCode"
"""Reasons of the condition by which an end is remembered; the last: an exit code made a retry pointless."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`ends` says whether the object tells its end itself; of others Pods are counted, while the object exists.

    `what` is the kind and name of the object, where it is known. `left` is how many Pods have still to succeed; None
    where that is not known. `gone` says that the object is no more. `exit_codes` are those of the containers of a
    failed Pod; `terminal` says that a retry is pointless.
    """

    ends: bool = False
    ending: Ending = ""
    message: str = ""
    left: int | None = None
    gone: bool = False
    exit_codes: tuple[int, ...] = ()
    terminal: bool = False
    what: str = ""


def outcome_of(obj: JSON) -> Outcome:
    """The outcome of an object of any kind and version."""
    read = _reader_of(obj)
    return read(obj) if read else Outcome()


def outcome_of_the_gone(status: JSON) -> Outcome:
    """What the status of a component remembers of its object; no ending where nothing is remembered.

    An end counts for the object that was created last: what resets an AppWrapper elsewhere leaves the condition there.
    """
    ends = _reader_of(status) not in (None, _pod)
    ended, deployed = condition(status, ENDED), condition(status, RESOURCES_DEPLOYED)
    generations = [mark.get("observedGeneration") for mark in (ended, deployed)]
    times = [str(mark.get("lastTransitionTime") or "") for mark in (ended, deployed)]
    current = generations[0] == generations[1] and (bool(generations[0]) or times[0] >= times[1])
    if not (is_true(status, ENDED) and is_true(status, RESOURCES_DEPLOYED) and current):
        return Outcome(ends, gone=True)
    if ended.get("reason") == SUCCEEDED:
        return Outcome(True, "succeeded", left=0, gone=True)
    message, terminal = str(ended.get("message") or ""), ended.get("reason") == FAILED_FOR_GOOD
    return Outcome(True, "failed", message, left=0, gone=True, terminal=terminal)


def remember_end(status: JSON, outcome: Outcome, *, now: datetime) -> None:
    """Put the end of its object into the status of a component, in place, where it is not there already."""
    if outcome_of_the_gone(status).ending:
        return
    forget_end(status)
    reason = SUCCEEDED if outcome.ending == "succeeded" else FAILED_FOR_GOOD if outcome.terminal else FAILED
    message = "" if outcome.ending == "succeeded" else cut_as_stored(outcome.message, REMARK)
    generation = condition(status, RESOURCES_DEPLOYED).get("observedGeneration", 0)
    set_condition(status, ENDED, "True", reason, message, now=now, generation=generation)


def forget_end(status: JSON) -> None:
    """Its object is created again."""
    if condition(status, ENDED):
        status["conditions"] = [entry for entry in status["conditions"] if entry.get("type") != ENDED]


def as_gone(outcome: Outcome) -> Outcome:
    """The outcome of an object that has ended, after the object is gone."""
    return replace(outcome, ends=True, left=0, gone=True)


def _reader_of(holder: JSON) -> Callable[[JSON], Outcome] | None:
    """`holder` is an object, or the status of a component."""
    group = str(holder.get("apiVersion", "")).rpartition("/")[0]
    return _KINDS.get((group, str(holder.get("kind"))))


def _pod(obj: JSON) -> Outcome:
    """A Pod counts as one of its podSet while it exists."""
    status = status_of(obj)
    ending = _PHASES.get(str(status.get("phase")), "")
    if not ending or _was_stopped(obj["metadata"], status):
        return Outcome()
    message = "" if ending == "succeeded" else trouble_of(status)
    return Outcome(False, ending, message, exit_codes=exit_codes_of(status))


def _was_stopped(metadata: JSON, status: JSON) -> bool:
    """Whether the containers of a Pod ended because its deletion was asked for: that is no end of its own."""
    deleted = moment(metadata.get("deletionTimestamp"))
    if deleted is None:
        return False
    # The timestamp is the end of the grace. A container may end within the second in which it is stopped.
    requested_at = deleted - timedelta(seconds=whole_or(str(metadata.get("deletionGracePeriodSeconds") or 0), 0))
    states = [(container.get("state") or {}).get("terminated") or {} for container in container_statuses(status)]
    return any(ended >= requested_at for state in states if (ended := moment(state.get("finishedAt"))) is not None)


def _by_conditions(succeeded: str, failed: str) -> Callable[[JSON], Outcome]:
    def read(obj: JSON) -> Outcome:
        status = status_of(obj)
        endings: tuple[tuple[Ending, str], ...] = (("failed", failed), ("succeeded", succeeded))
        for ending, kind in endings:
            end = condition(status, kind)
            if end.get("status") == "True":
                return Outcome(True, ending, _why(end), left=0)
        return Outcome(True)

    return read


def _why(end: JSON) -> str:
    return ": ".join(str(end[part]) for part in ("reason", "message") if end.get(part))


def _job(obj: JSON) -> Outcome:
    outcome = _by_conditions("Complete", "Failed")(obj)
    if outcome.ending:
        return outcome
    spec, status = obj.get("spec") or {}, status_of(obj)
    completions = spec.get("completions")
    return outcome if completions is None else Outcome(True, left=max(0, completions - status.get("succeeded", 0)))


def _ray_job(obj: JSON) -> Outcome:
    status = status_of(obj)
    deployment, job = status.get("jobDeploymentStatus"), status.get("jobStatus")
    why = ": ".join(str(status[part]) for part in ("reason", "message") if status.get(part))
    if deployment == "Failed" or (deployment == "Complete" and job in ("FAILED", "STOPPED")):
        return Outcome(True, "failed", why or f"the Ray job is {job}", left=0)
    if deployment == "Complete" and job == "SUCCEEDED":
        return Outcome(True, "succeeded", why, left=0)
    return Outcome(True)


_KUBEFLOW = _by_conditions("Succeeded", "Failed")

_PHASES: dict[str, Ending] = {"Succeeded": "succeeded", "Failed": "failed"}

_KINDS: dict[tuple[str, str], Callable[[JSON], Outcome]] = {
    ("", "Pod"): _pod,
    ("batch", "Job"): _job,
    ("jobset.x-k8s.io", "JobSet"): _by_conditions("Completed", "Failed"),
    ("trainer.kubeflow.org", "TrainJob"): _by_conditions("Complete", "Failed"),
    ("ray.io", "RayJob"): _ray_job,
    **{
        ("kubeflow.org", kind): _KUBEFLOW
        for kind in ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
    },
}


@dataclass(frozen=True, slots=True)
class Pod(Head):
    """A Pod with the label of an AppWrapper. `mark` is the UID in our own label, `pod_set` the number of its podSet.

    `exit_codes` are those of containers that have failed, init containers too. `restarts` is the most that a container
    in a crash loop has been restarted. `resources` are the resources that its containers use. `trouble` says why the
    Pod has failed, or is not ready; "" where it is, or may soon be. `ended` is when its first container failed.
    """

    app_wrapper: str
    mark: str
    pod_set: int
    phase: str
    ready: bool
    held: bool
    restarts: int
    exit_codes: tuple[int, ...]
    node: str
    resources: frozenset[str]
    trouble: str = ""
    ended: str = ""


def stored_pod(obj: JSON) -> Pod:
    metadata, status = obj["metadata"], status_of(obj)
    labels, statuses = metadata.get("labels") or {}, container_statuses(status)
    failures = _failures(statuses)
    key, uid, deleting = head_of(obj)
    return Pod(
        key,
        uid,
        deleting,
        app_wrapper=labels.get(APP_WRAPPER, ""),
        mark=labels.get(APP_WRAPPER_UID, ""),
        pod_set=whole_or(labels.get(POD_SET), -1),
        phase=str(status.get("phase") or ""),
        ready=condition(status, "Ready").get("status") == "True",
        held=deleting and bool(metadata.get("finalizers")) and metadata.get("deletionGracePeriodSeconds") == 0,
        restarts=max(
            (whole_or(entry.get("restartCount"), 0) for entry in statuses if _is_in_crash_loop(entry)), default=0
        ),
        exit_codes=_exit_codes(failures),
        node=str((obj.get("spec") or {}).get("nodeName") or ""),
        resources=frozenset(_resources(obj.get("spec") or {})),
        trouble=trouble_of(status),
        ended=str(failures[0].get("finishedAt") or "") if failures else "",
    )


def container_statuses(status: JSON) -> list[JSON]:
    """Of a Pod's init containers first."""
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def exit_codes_of(status: JSON) -> tuple[int, ...]:
    """The exit codes of the containers that have failed."""
    return _exit_codes(_failures(container_statuses(status)))


def _exit_codes(failures: list[JSON]) -> tuple[int, ...]:
    return tuple(sorted({terminated["exitCode"] for terminated in failures}))


def trouble_of(status: JSON) -> str:
    """Why a Pod with this status has failed, or is not ready: the first container and its exit code, or the reason.

    "" where nothing is wrong, or where nothing is known yet.
    """
    if status.get("phase") == "Failed" and (status.get("reason") or status.get("message")):
        return _said(status)
    statuses = container_statuses(status)
    if failures := _failures(statuses):
        return f"container {failures[0]['container']}: {_ended(failures[0])}"
    for container in statuses:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in _USUAL:
            last = (container.get("lastState") or {}).get("terminated") or {}
            before = f", {several(whole_or(str(container.get('restartCount')), 0), 'restart')}, last: {_ended(last)}"
            return f"container {container.get('name')}: {_said(waiting)}" + (before if last else "")
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return _said(scheduled)
    unready = [
        str(container.get("name"))
        for container in statuses
        if "running" in (container.get("state") or {}) and not container.get("ready")
    ]
    return f"container {unready[0]} runs, and is not ready" if unready else ""


def _failures(statuses: list[JSON]) -> list[JSON]:
    """How containers have failed, the first one first."""
    ended = [
        terminated | {"container": container.get("name")}
        for container in statuses
        if isinstance(terminated := (container.get("state") or {}).get("terminated"), dict)
        and isinstance(terminated.get("exitCode"), int)
        and terminated["exitCode"]
    ]
    return sorted(ended, key=lambda state: str(state.get("finishedAt") or "~"))


def _ended(terminated: JSON) -> str:
    reason, message = terminated.get("reason"), str(terminated.get("message") or "").strip()
    code = f"exit code {terminated.get('exitCode')}" + (f" ({reason})" if reason else "")
    return f"{code}: {one_line(message, _LONGEST)}" if message else code


def _said(holder: JSON) -> str:
    texts = [str(holder[part]) for part in ("reason", "message") if holder.get(part)]
    return one_line(": ".join(texts), _LONGEST)


def _is_in_crash_loop(status: JSON) -> bool:
    return ((status.get("state") or {}).get("waiting") or {}).get("reason") == _CRASH_LOOP


def _resources(spec: JSON) -> set[str]:
    """The extended resources of which a container has more than nothing."""
    return {
        name
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        for part in ("limits", "requests")
        for name, amount in ((container.get("resources") or {}).get(part) or {}).items()
        if "/" in name and uses(amount)
    }


def uses(amount: Any) -> bool:
    """Whether a quantity is more than nothing; what is no quantity is left to the API server."""
    try:
        return parse(amount) > 0
    except ValueError:
        return False
