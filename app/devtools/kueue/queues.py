"""ClusterQueues and LocalQueues: which of them take Workloads, and their statuses. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from app.appwrappers.kueue.model import ADMITTED
from app.devtools.kueue.flavors import Slot, Usage, add, quantity, quotas_of
from app.devtools.kueue.workloads import has_quota, is_active, is_finished, status_of, usage_of
from app.kube.conditions import Truth, is_true, set_condition
from app.kube.store import Key
from app.wire import JSON

ACTIVE = "Active"
READY = "Ready"
STOPPED = "Stopped"
_CANNOT = "Can't submit new workloads to clusterQueue"


@dataclass(frozen=True, slots=True)
class World:
    """What there is: Workloads, LocalQueues by namespace and name, the rest by name.

    Of namespaces there are the labels, of RuntimeClasses the overheads.
    """

    workloads: Sequence[JSON]
    local_queues: Mapping[Key, JSON]
    cluster_queues: Mapping[str, JSON]
    flavors: Mapping[str, JSON]
    namespaces: Mapping[str, Mapping[str, str]]
    overheads: Mapping[str, JSON] = field(default_factory=dict)

    def local_queue_of(self, workload: JSON) -> JSON | None:
        return self.local_queues.get((workload["metadata"]["namespace"], workload["spec"].get("queueName") or ""))

    def cluster_queue_of(self, workload: JSON) -> str:
        """The name of the ClusterQueue that has given it quota, or else would; "" where there is none."""
        if has_quota(workload):
            return str(status_of(workload)["admission"]["clusterQueue"])
        local_queue = self.local_queue_of(workload)
        return "" if local_queue is None else str(local_queue["spec"].get("clusterQueue") or "")


def stop_policy(queue: JSON | None) -> str:
    return str((queue or {}).get("spec", {}).get("stopPolicy") or "None")


def cluster_queue_state(queue: JSON, flavors: Mapping[str, JSON]) -> tuple[str, str]:
    """The reason and the message of its condition Active; the reason is `READY` where it takes Workloads."""
    missing = sorted({flavor for flavor, _ in quotas_of(queue["spec"].get("resourceGroups") or [])} - flavors.keys())
    if queue["metadata"].get("deletionTimestamp"):
        return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
    if stop_policy(queue) != "None":
        return STOPPED, "Can't admit new workloads: is stopped."
    if missing:
        return (
            "FlavorNotFound",
            f"Can't admit new workloads: references missing ResourceFlavor(s): {','.join(missing)}.",
        )
    return READY, "Can admit new workloads"


def _local_queue_state(queue: JSON, world: World) -> tuple[str, str]:
    if stop_policy(queue) != "None":
        return STOPPED, "LocalQueue is stopped"
    cluster_queue = world.cluster_queues.get(queue["spec"].get("clusterQueue") or "")
    if cluster_queue is None:
        return "ClusterQueueDoesNotExist", _CANNOT
    if cluster_queue_state(cluster_queue, world.flavors)[0] != READY:
        return "ClusterQueueIsInactive", _CANNOT
    return READY, "Can submit new workloads to clusterQueue"


def cluster_queue_status(queue: JSON, world: World, now: datetime) -> JSON:
    name = queue["metadata"]["name"]
    members = [one for one in world.workloads if world.cluster_queue_of(one) == name]
    slots = quotas_of(queue["spec"].get("resourceGroups") or [])
    state = cluster_queue_state(queue, world.flavors)
    return _status(queue, state, members, slots, {"borrowed": "0"}, now)


def local_queue_status(queue: JSON, world: World, now: datetime) -> JSON:
    members = [one for one in world.workloads if world.local_queue_of(one) is queue]
    cluster_queue: JSON = world.cluster_queues.get(queue["spec"].get("clusterQueue") or "") or {"spec": {}}
    slots = quotas_of(cluster_queue["spec"].get("resourceGroups") or [])
    return _status(queue, _local_queue_state(queue, world), members, slots, {}, now)


def _status(
    queue: JSON, state: tuple[str, str], members: Sequence[JSON], slots: Usage, extra: JSON, now: datetime
) -> JSON:
    reserving = [one for one in members if has_quota(one)]
    admitted = [one for one in reserving if is_true(status_of(one), ADMITTED)]
    pending = [one for one in members if not (has_quota(one) or is_finished(one)) and is_active(one)]
    status: JSON = {
        "conditions": (queue.get("status") or {}).get("conditions") or [],
        "pendingWorkloads": len(pending),
        "reservingWorkloads": len(reserving),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": _usage(slots, reserving, extra),
        "flavorsUsage": _usage(slots, admitted, extra),
    }
    generation = int(queue["metadata"].get("generation") or 0)
    truth: Truth = "True" if state[0] == READY else "False"
    set_condition(status, ACTIVE, truth, *state, now=now, generation=generation)
    return status


def _usage(slots: Usage, workloads: Sequence[JSON], extra: JSON) -> list[JSON]:
    used = add(*(usage_of(one) for one in workloads))

    def total(slot: Slot) -> JSON:
        return {"name": slot[1], "total": quantity(slot[1], used.get(slot, Decimal(0))), **extra}

    flavors = dict.fromkeys(flavor for flavor, _ in slots)
    return [{"name": name, "resources": [total(slot) for slot in slots if slot[0] == name]} for name in flavors]
