"""Statuses of Workloads as the scheduler changes them. Pure: each function returns a new status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from app.appwrappers.kueue import model
from app.devtools.kueue.flavors import PODS, Assignment, PodSet, quantity
from app.devtools.kueue.workloads import has_quota, status_of
from app.kube.conditions import Truth, condition, is_true, set_condition
from app.wire import JSON

_DEACTIVATED = "The workload is deactivated"


def admitted(workload: JSON, queue: str, pod_sets: Sequence[PodSet], found: Assignment, now: datetime) -> JSON:
    """There are no admission checks: what has quota is admitted."""
    status = {**status_of(workload)}
    status["admission"] = {
        "clusterQueue": queue,
        "podSetAssignments": [_assignment(one, flavors) for one, flavors in zip(pod_sets, found.flavors, strict=True)],
    }
    reason = model.QUOTA_RESERVED
    _set(workload, status, reason, "True", reason, f"Quota reserved in ClusterQueue {queue}", now)
    for kind in (model.EVICTED, model.PREEMPTED):
        if is_true(status, kind):
            message = f"Previously: {condition(status, kind).get('message')}"
            _set(workload, status, kind, "False", reason, message, now)
    _set(workload, status, model.ADMITTED, "True", model.ADMITTED, "The workload is admitted", now)
    return status


def _assignment(pod_set: PodSet, flavors: Mapping[str, str]) -> JSON:
    amounts = {name: amount for name, amount in pod_set.requests.items() if name in flavors}
    usage = {name: quantity(name, amount) for name, amount in amounts.items()}
    if PODS in flavors:
        usage[PODS] = str(pod_set.count)
    return {"name": pod_set.name, "flavors": dict(flavors), "resourceUsage": usage, "count": pod_set.count}


def refused(workload: JSON, reason: str, message: str, now: datetime) -> JSON:
    """It has no quota, or its owner has given it back."""
    status = {name: value for name, value in status_of(workload).items() if name != "admission"}
    known = condition(status, model.QUOTA_RESERVED)
    if (known.get("status"), known.get("reason"), known.get("message")) != ("False", reason, message):
        _set(workload, status, model.QUOTA_RESERVED, "False", reason, message, now)
    if is_true(status, model.ADMITTED):
        _set(workload, status, model.ADMITTED, "False", model.NO_RESERVATION, "The workload has no reservation", now)
    return status


def evicted(workload: JSON, reason: str, message: str, now: datetime) -> JSON:
    """It keeps its quota until its owner has stopped and says so by a `QuotaReserved` that is False."""
    status = {**status_of(workload)}
    _set(workload, status, model.EVICTED, "True", reason, message, now)
    return status


def preempted(workload: JSON, by: JSON, now: datetime) -> JSON:
    metadata = by["metadata"]
    job = (metadata.get("labels") or {}).get(model.JOB_UID) or "UNKNOWN"
    message = (
        f"Preempted to accommodate a workload (UID: {metadata.get('uid') or 'UNKNOWN'}, JobUID: {job}) "
        "due to prioritization in the ClusterQueue"
    )
    status = evicted(workload, model.EVICTED_BY_PREEMPTION, message, now)
    _set(workload, status, model.PREEMPTED, "True", model.IN_CLUSTER_QUEUE, message, now)
    return status


def deactivated(workload: JSON, now: datetime) -> JSON:
    reason = model.EVICTED_BY_DEACTIVATION
    status = status_of(workload)
    if not is_true(status, model.EVICTED):
        status = evicted(workload, reason, _DEACTIVATED, now)
    status = {name: value for name, value in status.items() if name != "requeueState"}
    return status if has_quota(workload) else refused({**workload, "status": status}, reason, _DEACTIVATED, now)


def requeued(workload: JSON, reason: str, message: str, now: datetime) -> JSON:
    status = {**status_of(workload)}
    if "requeueState" in status:
        status["requeueState"] = {**status["requeueState"], "requeueAt": None}  # a merge patch takes it away
    _set(workload, status, model.REQUEUED, "True", reason, message, now)
    return status


def _set(workload: JSON, status: JSON, kind: str, truth: Truth, reason: str, message: str, now: datetime) -> None:
    generation = int(workload["metadata"].get("generation") or 0)
    set_condition(status, kind, truth, reason, message, now=now, generation=generation)
