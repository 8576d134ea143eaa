"""Cells of workloads and their Pod templates, as the real API server prints them. Pure functions of one object."""

from __future__ import annotations

from typing import Any

from app.devtools.sandbox.printing.durations import age, human_duration, parse_time
from app.wire import JSON

NONE = "<none>"
_JOB_STATUSES = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")
_SIGNS = {"Exists": "", "DoesNotExist": "!"}


def deployment_ready(workload: JSON, _: float) -> str:
    """Replicas that are ready, of those that are wanted."""
    ready, replicas = (workload.get("status") or {}).get("readyReplicas"), (workload.get("spec") or {}).get("replicas")
    return f"{ready or 0}/{replicas or 0}"


def job_status(job: JSON, _: float) -> str:
    """The condition of the Job that says most; Running where there is none."""
    conditions = (job.get("status") or {}).get("conditions") or []
    states = [kind for kind in _JOB_STATUSES if any(c["type"] == kind and c["status"] == "True" for c in conditions)]
    if job["metadata"].get("deletionTimestamp") and states[:1] not in (["Complete"], ["Failed"]):
        return "Terminating"
    return states[0] if states else "Running"


def job_completions(job: JSON, _: float) -> str:
    """Pods that succeeded, of those that have to."""
    spec, succeeded = job.get("spec") or {}, (job.get("status") or {}).get("succeeded", 0)
    if (completions := spec.get("completions")) is not None:
        return f"{succeeded}/{completions}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def job_duration(job: JSON, now: float) -> str:
    """From the start to the end, or until now; empty before the start."""
    status = job.get("status") or {}
    start, end = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    return "" if start is None else human_duration((now if end is None else end) - start)


def last_schedule(cron_job: JSON, now: float) -> str:
    """How long ago a CronJob made its last Job."""
    time = (cron_job.get("status") or {}).get("lastScheduleTime")
    return age(time, now=now) if time else NONE


def shown_labels(labels: JSON) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items())) or NONE


def shown_selector(selector: JSON) -> str:
    """A label selector by its keys in order."""
    terms = [(name, f"{name}={value}") for name, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or []:
        key, sign = term["key"], _SIGNS.get(term["operator"])
        values = f" ({','.join(sorted(term.get('values') or []))})"
        terms.append((key, f"{key} {term['operator'].lower()}{values}" if sign is None else f"{sign}{key}"))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0])) or NONE


def template_of(obj: JSON) -> JSON:
    """The spec of the Pods that a workload makes."""
    spec: JSON = obj.get("spec") or {}
    if obj.get("kind") == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    found: JSON = (spec.get("template") or {}).get("spec") or {}
    return found


def container_cells(obj: JSON, field: str) -> str:
    """A field of all containers of the Pod template."""
    return ",".join(container.get(field, "") for container in template_of(obj).get("containers") or [])


def revision_owner(revision: JSON, _: float) -> str:
    """The controller of a ControllerRevision, as `kind.group/name`."""
    owners: list[Any] = revision["metadata"].get("ownerReferences") or []
    for owner in owners:
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            return f"{owner['kind']}{'.' if group else ''}{group}".lower() + f"/{owner['name']}"
    return NONE
