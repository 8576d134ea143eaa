"""What the workload controller keeps of AppWrappers and of Workloads. Pure projections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.appwrappers.ancestors import resource_of
from app.appwrappers.kueue.model import (
    ADMISSION_GATED_BY,
    ADMITTED,
    EVICTED,
    FINISHED,
    JOB_UID,
    MAX_EXEC_TIME,
    MULTIKUEUE,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    RESOURCE_IN_USE,
)
from app.appwrappers.kueue.model import QUOTA_RESERVED as WORKLOAD_QUOTA_RESERVED
from app.appwrappers.model import PODS_READY, QUOTA_RESERVED, RESOURCES_DEPLOYED, queue_of
from app.appwrappers.podsets.paths import usable_status
from app.appwrappers.sizes import component_status
from app.kube.conditions import condition, is_true, status_of
from app.kube.resources import controller_of
from app.kube.store import Head, head_of
from app.numbers import whole_or
from app.wire import JSON, decode_json, encode_json

_PROVISIONING = "provreq.kueue.x-k8s.io/"


@dataclass(frozen=True, slots=True)
class Job(Head):
    """An AppWrapper as Kueue sees a job. `document` is the JSON of `spec.components`.

    `owner` is the reference to its controller where Kueue follows that kind, else empty. `remote` says that MultiKueue
    runs it in another cluster, and copies the status from there.
    """

    version: str
    suspended: bool
    owner: JSON
    remote: bool
    queue: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    document: bytes
    status: JSON

    @property
    def components(self) -> list[JSON]:
        components: list[JSON] = decode_json(self.document)
        return components

    @property
    def statuses(self) -> list[JSON]:
        """Of each component; empty until the framework controller has seen the AppWrapper.

        A remote one has no such controller here. Raises ValueError where a component of it has no podSets.
        """
        stored = list(self.status.get("componentStatus") or ())
        return [component_status(component) for component in self.components] if self.remote and not stored else stored

    @property
    def active(self) -> bool:
        """Whether it may have Pods here: until this is False, its quota cannot be given to others."""
        return not self.remote and is_true(self.status, QUOTA_RESERVED)

    @property
    def active_elsewhere(self) -> bool:
        """The same in another cluster, by the status that MultiKueue has copied last.

        Nothing corrects it where the object there is gone, or the cluster is lost.
        """
        return self.remote and is_true(self.status, QUOTA_RESERVED)

    @property
    def ready(self) -> bool:
        return is_true(self.status, PODS_READY)

    @property
    def finished(self) -> str:
        """Succeeded or Failed as soon as that is the end; "" before."""
        phase = str(self.status.get("phase") or "")
        if phase == "Succeeded" or (phase == "Failed" and not is_true(self.status, RESOURCES_DEPLOYED)):
            return phase
        return ""

    @property
    def prebuilt(self) -> str:
        """The name of the Workload that was made for it; "" where there is none."""
        return self.annotations.get(PREBUILT_WORKLOAD) or self.labels.get(PREBUILT_WORKLOAD, "")

    @property
    def max_exec_time(self) -> int | None:
        return whole_or(self.labels.get(MAX_EXEC_TIME), 0) or None


def stored_job(obj: JSON) -> Job:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    owner = controller_of(metadata)
    return Job(
        *head_of(obj),
        version=metadata["resourceVersion"],
        suspended=bool(spec.get("suspend")),
        owner=owner if resource_of(owner) is not None else {},
        remote=spec.get("managedBy") == MULTIKUEUE,
        queue=queue_of(obj),
        labels={key: labels[key] for key in (PRIORITY_CLASS, MAX_EXEC_TIME, PREBUILT_WORKLOAD) if key in labels},
        annotations={
            key: value
            for key, value in annotations.items()
            if key in (ADMISSION_GATED_BY, PREBUILT_WORKLOAD) or key.startswith(_PROVISIONING)
        },
        document=encode_json(spec.get("components") or []),
        status=usable_status(obj.get("status")),
    )


@dataclass(frozen=True, slots=True)
class Workload(Head):
    """`owner` is the UID of its controller; `pod_sets` is the JSON of `spec.podSets`.

    `owned` says whether it has any owner: the Pods of a group own their Workload, and none of them is its controller.
    """

    version: str
    held: bool
    finalizers: tuple[str, ...]
    owner: str
    owned: bool
    job_uid: str
    queue: str
    priority: int | None
    priority_class: str
    gated_by: str
    max_exec_time: int | None
    document: bytes
    status: JSON

    @property
    def pod_sets(self) -> list[JSON]:
        pod_sets: list[JSON] = decode_json(self.document)
        return pod_sets

    @property
    def reserved(self) -> bool:
        return is_true(self.status, WORKLOAD_QUOTA_RESERVED)

    @property
    def admitted(self) -> bool:
        return is_true(self.status, ADMITTED)

    @property
    def finished(self) -> bool:
        return is_true(self.status, FINISHED)

    @property
    def eviction(self) -> JSON:
        """The condition, where it is true."""
        evicted: JSON = condition(self.status, EVICTED)
        return evicted if evicted.get("status") == "True" else {}


def stored_workload(obj: JSON) -> Workload:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    finalizers = tuple(metadata.get("finalizers") or ())
    return Workload(
        *head_of(obj),
        version=metadata["resourceVersion"],
        held=RESOURCE_IN_USE in finalizers,
        finalizers=finalizers,
        owner=controller_of(metadata).get("uid", ""),
        owned=bool(metadata.get("ownerReferences")),
        job_uid=(metadata.get("labels") or {}).get(JOB_UID, ""),
        queue=spec.get("queueName") or "",
        priority=spec.get("priority"),
        priority_class=_priority_class(spec),
        gated_by=(metadata.get("annotations") or {}).get(ADMISSION_GATED_BY, ""),
        max_exec_time=spec.get("maximumExecutionTimeSeconds"),
        document=encode_json(spec.get("podSets") or []),
        status=status_of(obj),
    )


def _priority_class(spec: JSON) -> str:
    """The name of its WorkloadPriorityClass, as either version of the API says it; "" where it has none."""
    reference: Any = spec.get("priorityClassRef") or {}
    if reference.get("kind") == "WorkloadPriorityClass":
        return str(reference.get("name", ""))
    if spec.get("priorityClassSource") == "kueue.x-k8s.io/workloadpriorityclass":
        return str(spec.get("priorityClassName") or "")
    return ""
