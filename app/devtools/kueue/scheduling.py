"""One pass of the scheduler over everything: the statuses of Workloads that are to change. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from app.appwrappers.kueue import model
from app.devtools.kueue import changes
from app.devtools.kueue.queueing import PENDING, decide
from app.devtools.kueue.queues import READY, World, cluster_queue_state, stop_policy
from app.devtools.kueue.workloads import (
    has_quota,
    holder_of,
    is_active,
    is_finished,
    requeue_time,
    status_of,
    waiting_of,
)
from app.kube.conditions import condition, is_true
from app.kube.selectors import label_selector_from_json
from app.kube.store import Key, key_of
from app.wire import JSON

ADMISSION_GATED = "AdmissionGated"
ON_HOLD = "OnHold"
_DRAIN = "HoldAndDrain"
_NOTHING: Mapping[str, str] = {}


def plan(world: World, now: datetime) -> dict[Key, JSON]:
    """The new status of each Workload whose status is to change."""
    statuses: dict[Key, JSON] = {}
    queued: dict[str, list[JSON]] = {}
    for workload in world.workloads:
        if is_finished(workload):
            continue
        status = _alone(workload, world, now)
        if status is None:
            queued.setdefault(world.cluster_queue_of(workload), []).append(workload)
        else:
            statuses[key_of(workload)] = status
    for name, waiting in queued.items():
        statuses |= _of_queue(name, waiting, world, now)
    before = {key_of(workload): status_of(workload) for workload in world.workloads}
    return {key: status for key, status in statuses.items() if status != before[key]}


def _alone(workload: JSON, world: World, now: datetime) -> JSON | None:
    """The status, where it does not depend on other Workloads; None for one that is to be queued."""
    status = status_of(workload)
    if not is_active(workload):
        return changes.deactivated(workload, now)
    if has_quota(workload):
        stopped = _stopped(workload, world)
        if stopped and not is_true(status, model.EVICTED):
            return changes.evicted(workload, *stopped, now)
        return status
    if workload["metadata"].get("deletionTimestamp"):
        return status
    if status.get("admission"):  # its owner has given the quota back; another admission may follow on none alone
        return changes.refused(workload, model.PENDING_EVALUATION, PENDING, now)
    requeued = condition(status, model.REQUEUED)
    waits = requeue_time(workload)
    if waits is not None and waits > now:
        return status
    if requeued.get("status") == "False":
        cause = _requeued(str(requeued.get("reason")), workload, world)
        return changes.requeued(workload, *cause, now) if cause else status
    if condition(status, model.QUOTA_RESERVED).get("reason") == ON_HOLD:
        return status
    blocker = _blocker(workload, world)
    return changes.refused(workload, *blocker, now) if blocker else None


def _of_queue(name: str, waiting: list[JSON], world: World, now: datetime) -> dict[Key, JSON]:
    by_key = {key_of(one): one for one in world.workloads}
    holders = [holder_of(one) for one in world.workloads if has_quota(one) and world.cluster_queue_of(one) == name]
    statuses, candidates = {}, []
    for one in waiting:
        try:
            candidates.append(waiting_of(one, world.overheads))
        except (ValueError, TypeError, AttributeError):  # a definition does not check Pod templates
            why = "the resource requests of a Pod template cannot be read"
            statuses[key_of(one)] = changes.refused(one, model.MISCONFIGURED, why, now)
    verdicts = decide(world.cluster_queues[name]["spec"], world.flavors, holders, candidates)
    asked = {one.key: one for one in candidates}
    for key, found in verdicts.admitted.items():
        statuses[key] = changes.admitted(by_key[key], name, asked[key].pod_sets, found, now)
    statuses |= {key: changes.refused(by_key[key], *why, now) for key, why in verdicts.waiting.items()}
    return statuses | {key: changes.preempted(by_key[key], by_key[by], now) for key, by in verdicts.evicted.items()}


def _stopped(workload: JSON, world: World) -> tuple[str, str] | None:
    """The reason to evict it, and a message."""
    if stop_policy(world.cluster_queues.get(world.cluster_queue_of(workload))) == _DRAIN:
        return model.EVICTED_BY_CLUSTER_QUEUE, "The ClusterQueue is stopped"
    if stop_policy(world.local_queue_of(workload)) == _DRAIN:
        return model.EVICTED_BY_LOCAL_QUEUE, "The LocalQueue is stopped"
    return None


def _requeued(reason: str, workload: JSON, world: World) -> tuple[str, str] | None:
    """Why a Workload that was taken out of its queue for this reason is back, and a message; None if it is not."""
    if reason.startswith(model.EVICTED_BY_DEACTIVATION):
        return "Reactivated", "The workload was reactivated"
    if reason == model.EVICTED_BY_CLUSTER_QUEUE:
        runs = stop_policy(world.cluster_queues.get(world.cluster_queue_of(workload))) == "None"
        return ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped") if runs else None
    if reason == model.EVICTED_BY_LOCAL_QUEUE:
        runs = stop_policy(world.local_queue_of(workload)) == "None"
        return ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped") if runs else None
    if reason in (model.EVICTED_BY_PODS_READY_TIMEOUT, model.EVICTED_BY_CHECK):
        return "BackoffFinished", "The workload backoff was finished"
    return None


def _blocker(workload: JSON, world: World) -> tuple[str, str] | None:
    """Why it cannot be queued: a reason and a message."""
    name, queue = workload["spec"].get("queueName") or "", world.local_queue_of(workload)
    if queue is None:
        return model.MISCONFIGURED, f"LocalQueue {name} doesn't exist"
    if stop_policy(queue) != "None":
        return model.SUSPENDED, f"LocalQueue {name} is inactive"
    name = world.cluster_queue_of(workload)
    cluster_queue = world.cluster_queues.get(name)
    if cluster_queue is None:
        return model.MISCONFIGURED, f"ClusterQueue {name} doesn't exist"
    if cluster_queue_state(cluster_queue, world.flavors)[0] != READY:
        return model.SUSPENDED, f"ClusterQueue {name} is inactive"
    try:
        selector = label_selector_from_json(cluster_queue["spec"].get("namespaceSelector"))
    except ValueError as error:
        return model.MISCONFIGURED, f"invalid namespace selector: {error}"
    if not selector.matches(world.namespaces.get(workload["metadata"]["namespace"], _NOTHING)):
        return model.MISCONFIGURED, "workload namespace doesn't match ClusterQueue selector"
    gates = (workload["metadata"].get("annotations") or {}).get(model.ADMISSION_GATED_BY)
    return (ADMISSION_GATED, f"Admission is gated by: {gates}") if gates else None
