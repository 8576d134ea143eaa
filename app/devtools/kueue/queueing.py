"""Which Workloads of a ClusterQueue get quota, which wait and why, and which make room. Pure.

The order is by priority, then by creation. In a StrictFIFO queue nothing passes a Workload that waits. What is being
evicted holds its quota until its owner has stopped it; what waits for that has the quota that will be free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.appwrappers.kueue.model import PENDING_EVALUATION, WAITING_FOR_PREEMPTED, WAITING_FOR_QUOTA
from app.devtools.kueue.flavors import Assignment, PodSet, Unfit, Usage, add, assign, beyond, quotas_of, subtract
from app.kube.store import Key
from app.wire import JSON

PENDING = "Workload is pending evaluation in the scheduling queue"


@dataclass(frozen=True, slots=True)
class Holder:
    """A Workload that has quota; `since` is when it got it, `leaving` whether it is being evicted."""

    key: Key
    priority: int
    since: str
    usage: Usage
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """A Workload that asks for quota."""

    key: Key
    priority: int
    created: str
    pod_sets: tuple[PodSet, ...]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """`waiting` has the reason and message of each that gets none; `evicted` the Workload that each makes room for."""

    admitted: dict[Key, Assignment] = field(default_factory=dict)
    waiting: dict[Key, tuple[str, str]] = field(default_factory=dict)
    evicted: dict[Key, Key] = field(default_factory=dict)


def decide(spec: JSON, flavors: Mapping[str, JSON], holders: Sequence[Holder], waiting: Sequence[Waiting]) -> Verdicts:
    """What becomes of the Workloads of a ClusterQueue with this spec."""
    groups: list[JSON] = spec.get("resourceGroups") or []
    quotas = quotas_of(groups)
    preempts = (spec.get("preemption") or {}).get("withinClusterQueue") == "LowerPriority"
    strict = spec.get("queueingStrategy") == "StrictFIFO"
    verdicts, blocked = Verdicts(), False
    used = add(*(holder.usage for holder in holders))
    for job in sorted(waiting, key=lambda one: (-one.priority, one.created, one.key)):
        if blocked:
            verdicts.waiting[job.key] = (PENDING_EVALUATION, PENDING)
            continue
        found = assign(job.pod_sets, groups, flavors, used)
        if isinstance(found, Unfit):
            verdicts.waiting[job.key] = (found.reason, found.message)
        elif not found.lacking:
            verdicts.admitted[job.key] = found
            used = add(used, found.usage)
            continue
        else:
            victims = _victims(found.usage, quotas, used, holders, below=job.priority if preempts else None)
            if victims is None:
                verdicts.waiting[job.key] = (WAITING_FOR_QUOTA, found.lacking)
            else:
                verdicts.waiting[job.key] = (
                    WAITING_FOR_PREEMPTED,
                    f"{found.lacking}; Workloads that are evicted hold it",
                )
                verdicts.evicted.update(dict.fromkeys(victims, job.key))
                holders = [replace(one, leaving=True) if one.key in victims else one for one in holders]
                used = add(used, found.usage)
        blocked = strict
    return verdicts


def _victims(
    wanted: Usage, quotas: Usage, used: Usage, holders: Sequence[Holder], *, below: int | None
) -> list[Key] | None:
    """Who has to leave, beside those that do: the least important and newest, no more than need be. None: in vain."""
    free = subtract(used, add(*(one.usage for one in holders if one.leaving)))
    candidates = [one for one in holders if not one.leaving and below is not None and one.priority < below]
    candidates.sort(key=lambda one: one.since, reverse=True)
    candidates.sort(key=lambda one: one.priority)
    chosen: list[Holder] = []
    while beyond(quotas, free, wanted):
        if not candidates:
            return None
        chosen.append(candidates.pop(0))
        free = subtract(free, chosen[-1].usage)
    for one in reversed(chosen[:-1]):
        if not beyond(quotas, add(free, one.usage), wanted):
            chosen.remove(one)
            free = add(free, one.usage)
    return [one.key for one in chosen]
