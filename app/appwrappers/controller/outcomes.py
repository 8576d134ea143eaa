"""How objects with an end of their own have ended: what their conditions say, not what their Pods look like. Pure.

Such kinds repeat failed Pods by their own policies, so that a failed Pod of theirs is no failure yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from app.kube.conditions import condition, status_of
from app.wire import JSON

Ending = Literal["", "succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`ends` says whether objects of the kind end by themselves.

    `left` is how many Pods have still to succeed; None where that is not known.
    """

    ends: bool = False
    ending: Ending = ""
    message: str = ""
    left: int | None = None


def outcome_of(obj: JSON) -> Outcome:
    """The outcome of an object of any kind and version."""
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    read = _KINDS.get((group, str(obj.get("kind"))))
    return read(obj) if read else Outcome()


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
_KINDS: dict[tuple[str, str], Callable[[JSON], Outcome]] = {
    ("batch", "Job"): _job,
    ("jobset.x-k8s.io", "JobSet"): _by_conditions("Completed", "Failed"),
    ("trainer.kubeflow.org", "TrainJob"): _by_conditions("Complete", "Failed"),
    ("ray.io", "RayJob"): _ray_job,
    **{
        ("kubeflow.org", kind): _KUBEFLOW
        for kind in ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
    },
}
