"""What the workload controller keeps of Workloads. A pure projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.appwrappers.kueue.model import (
    ADMISSION_GATED_BY,
    ADMITTED,
    EVICTED,
    FINISHED,
    JOB_UID,
    QUOTA_RESERVED,
    RESOURCE_IN_USE,
)
from app.kube.conditions import condition, is_true, status_of
from app.kube.resources import controller_of
from app.kube.store import Head, head_of
from app.wire import JSON, decode_json, encode_json


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
        return is_true(self.status, QUOTA_RESERVED)

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
