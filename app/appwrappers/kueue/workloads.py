"""The Workload of an AppWrapper: its name, its body in both versions of the API, and whether one still fits. Pure.

Out of its admission come the podSetInfos that the Pods get. Facts: Kueue takes node labels and tolerations from the
flavors, marks Pods with their podSet, queues and Workload, holds back Pods with a topology by a gate, and adds what
admission checks say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from app.appwrappers.controller.objects import owner_reference
from app.appwrappers.controller.stored import AppWrapper
from app.appwrappers.kueue.model import (
    ADMISSION_GATED_BY,
    CLUSTER_QUEUE_NAME,
    GROUP,
    JOB_UID,
    LOCAL_QUEUE_NAME,
    PODSET,
    RESOURCE_IN_USE,
    WORKLOAD_NAME,
)
from app.appwrappers.kueue.stored import Workload
from app.appwrappers.kueue.templates import pod_sets, same_pod_sets
from app.appwrappers.model import ANNOTATIONS, APP_WRAPPERS
from app.kube.names import check_dns_label
from app.kube.resources import Resource
from app.wire import JSON

T = TypeVar("T")
OfFlavors = Generator[str, JSON, T]
"""Yields the name of a ResourceFlavor, and is sent its spec."""
_LONGEST, _HASH = 63, 5
_SCHEDULING = "scheduling.k8s.io"
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"


@dataclass(frozen=True, slots=True)
class Priority:
    """`kind` is WorkloadPriorityClass, PriorityClass, or "" for none."""

    value: int = 0
    kind: str = ""
    name: str = ""


def name_of(job: AppWrapper) -> str:
    """The name that Kueue would give it: it can be the value of a label, and is another one for another UID."""
    digest = hashlib.sha1(  # noqa: S324 - Kueue's choice; nothing secret depends on it
        f"{APP_WRAPPERS.kind}\n{APP_WRAPPERS.group}\n{job.key[1]}\n{job.uid}".encode()
    ).hexdigest()
    prefix = f"{APP_WRAPPERS.kind.lower()}-{job.key[1]}"
    return f"{prefix[: _LONGEST - _HASH - 1]}-{digest[:_HASH]}"


def new_workload(job: AppWrapper, resource: Resource, priority: Priority) -> JSON:
    """The Workload to create. Raises ValueError where the podSets cannot be made."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name_of(job),
            "labels": {JOB_UID: job.uid},
            "annotations": {name: text for name, text in job.annotations.items() if not name.startswith(ANNOTATIONS)},
            "finalizers": [RESOURCE_IN_USE],
            "ownerReferences": [owner_of(job)],
        },
        "spec": spec_of(job, resource, priority),
    }


def owner_of(job: AppWrapper) -> JSON:
    return owner_reference(job.key[1], job.uid)


def spec_of(job: AppWrapper, resource: Resource, priority: Priority) -> JSON:
    spec: JSON = {
        "podSets": list(pod_sets(job.key[1], job.components, job.component_statuses)),
        "queueName": job.queue,
        **priority_of(resource, priority),
    }
    return spec | ({"maximumExecutionTimeSeconds": job.max_exec_time} if job.max_exec_time else {})


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


def fits(job: AppWrapper, workload: Workload) -> bool:
    """Whether a Workload is that of the AppWrapper as it is now."""
    if workload.owner != job.uid or workload.max_exec_time != job.max_exec_time:
        return False
    return same_pod_sets(
        job.components,
        job.component_statuses,
        workload.pod_sets,
        admitted=workload.admitted,
        waiting=not (workload.reserved or job.prebuilt),
    )


def is_gated_alike(job: AppWrapper, workload: Workload) -> bool:
    return job.annotations.get(ADMISSION_GATED_BY, "") == workload.gated_by


class PermanentError(ValueError):
    """The admission does not fit the AppWrapper, and never will."""


def pod_set_infos(workload: Workload) -> OfFlavors[list[JSON]]:
    """The podSetInfos in the order of the podSets. Raises PermanentError."""
    admission = workload.status.get("admission") or {}
    assigned = {assignment["name"]: assignment for assignment in admission.get("podSetAssignments") or ()}
    pod_sets = workload.pod_sets
    if len(assigned) != len(pod_sets):
        raise PermanentError(f"invalid podset infos: expecting {len(pod_sets)} podset, got {len(assigned)}")
    infos, flavors = list[JSON](), dict[str, JSON]()
    for pod_set in pod_sets:
        infos.append((yield from _info(workload, pod_set, assigned, flavors, admission)))
    return infos


def _info(
    workload: Workload, pod_set: JSON, assigned: Mapping[str, JSON], flavors: dict[str, JSON], admission: JSON
) -> OfFlavors[JSON]:
    name = pod_set.get("name") or "main"
    assignment = assigned.get(name)
    if assignment is None:
        raise PermanentError(f"invalid podset infos: podset {name} has no assignment")
    info: JSON = {
        "annotations": {WORKLOAD_NAME: workload.key[1]},
        "labels": {PODSET: name, LOCAL_QUEUE_NAME: workload.queue} | _cluster_queue(admission),
        "nodeSelector": {},
        "tolerations": [],
    }
    if assignment.get("topologyAssignment"):
        request = pod_set.get("topologyRequest") or {}
        if all(request.get(field) is None for field in ("required", "preferred", "unconstrained")):
            info["annotations"][UNCONSTRAINED] = "true"
        info["schedulingGates"] = [{"name": TOPOLOGY_GATE}]
    for flavor in dict.fromkeys((assignment.get("flavors") or {}).values()):
        if flavor not in flavors:
            flavors[flavor] = yield flavor
        info["nodeSelector"] |= flavors[flavor].get("nodeLabels") or {}
        info["tolerations"] += flavors[flavor].get("tolerations") or []
    for check in workload.status.get("admissionChecks") or ():
        for update in check.get("podSetUpdates") or ():
            if update.get("name") == name:
                _merge(info, update)
    return {field: value for field, value in info.items() if value}


def _cluster_queue(admission: JSON) -> dict[str, str]:
    """A label, where the name can be the value of one."""
    try:
        check_dns_label(admission["clusterQueue"])
    except (KeyError, ValueError):
        return {}
    return {CLUSTER_QUEUE_NAME: admission["clusterQueue"]}


def _merge(info: JSON, update: JSON) -> None:
    for field in ("annotations", "labels", "nodeSelector"):
        for key, value in (update.get(field) or {}).items():
            before: Any = info[field].get(key, value)
            if before != value:
                raise PermanentError(
                    f"invalid admission check PodSetUpdate: conflict for {field}: {key} is {before!r} and {value!r}"
                )
            info[field][key] = value
    info["tolerations"] += [
        toleration for toleration in update.get("tolerations") or () if toleration not in info["tolerations"]
    ]
