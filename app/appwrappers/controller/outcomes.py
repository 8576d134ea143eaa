"""How objects have ended: what they say of it themselves, and what the status of an AppWrapper remembers. Pure.

Kinds with an end of their own repeat failed Pods by their own policies, so that a failed Pod of theirs is no failure
yet. An object that has ended may be cleaned up (a TTL, the garbage collection of Pods): its end stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from app.appwrappers.controller.pods import container_statuses, exit_codes_of, trouble_of
from app.appwrappers.model import ENDED, RESOURCES_DEPLOYED
from app.appwrappers.sizes import REMARK
from app.kube.conditions import condition, cut_as_stored, is_true, set_condition, status_of
from app.numbers import whole_or
from app.text import moment
from app.wire import JSON

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
    asked = deleted - timedelta(seconds=whole_or(str(metadata.get("deletionGracePeriodSeconds") or 0), 0))
    states = [(container.get("state") or {}).get("terminated") or {} for container in container_statuses(status)]
    return any(ended >= asked for state in states if (ended := moment(state.get("finishedAt"))) is not None)


def _by_conditions(succeeded: str, failed: str) -> Callable[[JSON], Outcome]:
    def read(obj: JSON) -> Outcome:
        status = status_of(obj)
        endings: tuple[tuple[Ending, str], ...] = (("failed", failed), ("succeeded", succeeded))
        for ending, kind in endings:
            found = condition(status, kind)
            if found.get("status") == "True":
                return Outcome(True, ending, _why(found), left=0)
        return Outcome(True)

    return read


def _why(found: JSON) -> str:
    return ": ".join(str(found[part]) for part in ("reason", "message") if found.get(part))


def _job(obj: JSON) -> Outcome:
    found = _by_conditions("Complete", "Failed")(obj)
    if found.ending:
        return found
    spec, status = obj.get("spec") or {}, status_of(obj)
    completions = spec.get("completions")
    return found if completions is None else Outcome(True, left=max(0, completions - status.get("succeeded", 0)))


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
