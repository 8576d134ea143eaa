"""The Workload of an AppWrapper: its name, its body in both versions of the API, and whether one still fits. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from app.appwrappers.controller.objects import owner_reference
from app.appwrappers.kueue.model import ADMISSION_GATED_BY, GROUP, JOB_UID, RESOURCE_IN_USE
from app.appwrappers.kueue.stored import Job, Workload
from app.appwrappers.kueue.templates import pod_sets, same_pod_sets
from app.appwrappers.model import APP_WRAPPERS
from app.kube.resources import Resource
from app.wire import JSON

_LONGEST, _HASH = 63, 5
_SCHEDULING = "scheduling.k8s.io"


@dataclass(frozen=True, slots=True)
class Priority:
    """`kind` is WorkloadPriorityClass, PriorityClass, or "" for none."""

    value: int = 0
    kind: str = ""
    name: str = ""


def name_of(job: Job) -> str:
    """The name that Kueue would give it: it can be the value of a label, and is another one for another UID."""
    digest = hashlib.sha1(  # noqa: S324 - Kueue's choice; nothing secret depends on it
        f"{APP_WRAPPERS.kind}\n{APP_WRAPPERS.group}\n{job.key[1]}\n{job.uid}".encode()
    ).hexdigest()
    prefix = f"{APP_WRAPPERS.kind.lower()}-{job.key[1]}"
    return f"{prefix[: _LONGEST - _HASH - 1]}-{digest[:_HASH]}"


def new_workload(job: Job, resource: Resource, priority: Priority) -> JSON:
    """The Workload to create. Raises ValueError where the podSets cannot be made."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name_of(job),
            "labels": {JOB_UID: job.uid},
            "annotations": dict(job.annotations),
            "finalizers": [RESOURCE_IN_USE],
            "ownerReferences": [owner_of(job)],
        },
        "spec": spec_of(job, resource, priority),
    }


def owner_of(job: Job) -> JSON:
    return owner_reference(job.key[1], job.uid)


def spec_of(job: Job, resource: Resource, priority: Priority) -> JSON:
    found: JSON = {
        "podSets": list(pod_sets(job.key[1], job.components, job.statuses)),
        "queueName": job.queue,
        **priority_of(resource, priority),
    }
    return found | ({"maximumExecutionTimeSeconds": job.max_exec_time} if job.max_exec_time else {})


def priority_of(resource: Resource, priority: Priority) -> JSON:
    """The fields of the spec that say the priority; those that are not there are null."""
    if resource.version == "v1beta1":
        source = f"{GROUP}/workloadpriorityclass" if priority.kind == "WorkloadPriorityClass" else ""
        source = f"{_SCHEDULING}/priorityclass" if priority.kind == "PriorityClass" else source
        fields: JSON = {"priorityClassName": priority.name or None, "priorityClassSource": source or None}
    else:
        group = GROUP if priority.kind == "WorkloadPriorityClass" else _SCHEDULING
        ref = {"group": group, "kind": priority.kind, "name": priority.name}
        fields = {"priorityClassRef": ref if priority.kind else None}
    return {"priority": priority.value} | fields


def fits(job: Job, workload: Workload) -> bool:
    """Whether a Workload is that of the AppWrapper as it is now."""
    if workload.owner != job.uid or workload.max_exec_time != job.max_exec_time:
        return False
    return same_pod_sets(
        job.components,
        job.statuses,
        workload.pod_sets,
        admitted=workload.admitted,
        waiting=not (workload.reserved or job.prebuilt),
    )


def is_gated_alike(job: Job, workload: Workload) -> bool:
    return job.annotations.get(ADMISSION_GATED_BY, "") == workload.gated_by
