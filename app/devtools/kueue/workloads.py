"""What the scheduler reads of a Workload. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from app.appwrappers.kueue.model import (
    EVICTED,
    FINISHED,
    PRIORITY_BOOST,
    QUOTA_RESERVED,
)
from app.appwrappers.kueue.templates import counted_spec
from app.devtools.kueue.flavors import PodSet, Usage, add
from app.devtools.kueue.queueing import Holder, Waiting
from app.kinds.requests import pod_requests
from app.kube.conditions import condition, is_true
from app.kube.quantity import parse
from app.kube.store import key_of
from app.text import moment
from app.wire import JSON


def status_of(workload: JSON) -> JSON:
    status: JSON = workload.get("status") or {}
    return status


def is_finished(workload: JSON) -> bool:
    return is_true(status_of(workload), FINISHED)


def is_active(workload: JSON) -> bool:
    return workload["spec"].get("active") is not False


def has_quota(workload: JSON) -> bool:
    """Whether it holds quota: a finished one does not, and an evicted one does until its owner has stopped."""
    status = status_of(workload)
    return is_true(status, QUOTA_RESERVED) and bool(status.get("admission")) and not is_finished(workload)


def priority_of(workload: JSON) -> int:
    boost = (workload["metadata"].get("annotations") or {}).get(PRIORITY_BOOST, "0")
    return int(workload["spec"].get("priority") or 0) + (int(boost) if boost.removeprefix("-").isdecimal() else 0)


def requeue_time(workload: JSON) -> datetime | None:
    """When it is to be considered again; None where it has not to wait."""
    return moment((status_of(workload).get("requeueState") or {}).get("requeueAt"))


def holder_of(workload: JSON) -> Holder:
    """A Workload that has quota."""
    status, key = status_of(workload), key_of(workload)
    since = condition(status, QUOTA_RESERVED)["lastTransitionTime"]
    return Holder(key, priority_of(workload), since, usage_of(workload), leaving=is_true(status, EVICTED))


def usage_of(workload: JSON) -> Usage:
    """What its admission uses; Pods that are no longer needed use nothing."""
    needed = {one["name"]: _needed(workload, one) for one in workload["spec"]["podSets"]}
    assignments = status_of(workload)["admission"]["podSetAssignments"]
    return add(*(_usage(one, needed.get(one["name"], 0)) for one in assignments))


def _needed(workload: JSON, pod_set: JSON) -> int:
    """How many Pods of the podSet still run or will run."""
    reclaimable = status_of(workload).get("reclaimablePods") or []
    return int(pod_set["count"]) - sum(int(one["count"]) for one in reclaimable if one["name"] == pod_set["name"])


def _usage(assignment: JSON, needed: int) -> Usage:
    flavors: dict[str, str] = assignment.get("flavors") or {}
    amounts = {name: parse(text) for name, text in (assignment.get("resourceUsage") or {}).items()}
    count = int(assignment.get("count", needed))
    running = min(count, needed)
    return {
        (flavors[name], name): amount * running / (count or 1) for name, amount in amounts.items() if name in flavors
    }


def waiting_of(workload: JSON, overheads: Mapping[str, JSON]) -> Waiting:
    """A Workload that asks for quota, for the Pods that are still needed; `overheads` are those of RuntimeClasses."""
    created = workload["metadata"]["creationTimestamp"]
    pod_sets = tuple(_pod_set(one, _needed(workload, one), overheads) for one in workload["spec"]["podSets"])
    return Waiting(key_of(workload), priority_of(workload), created, pod_sets)


def _pod_set(pod_set: JSON, count: int, overheads: Mapping[str, JSON]) -> PodSet:
    spec = counted_spec(pod_set["template"].get("spec") or {}, overheads)
    requests = {name: amount * count for name, amount in pod_requests({"spec": spec}).items()}
    return PodSet(pod_set["name"], count, requests, spec)
