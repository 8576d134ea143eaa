"""Enforcement: the ways of a workload on each cache and its class of service; and the release of both."""

from __future__ import annotations

from dataclasses import replace

from app.devtools.rmd.bits import highest, lowest, parsed, runs
from app.devtools.rmd.classes import INFRA, OS, Classes, Settings
from app.devtools.rmd.failures import INTERNAL, Failure, detailed
from app.devtools.rmd.faults import Faults
from app.devtools.rmd.machine import Machine
from app.devtools.rmd.model import SUCCESSFUL, Workload
from app.devtools.rmd.pools import GUARANTEED, SHARED, Demand, demand_of


def enforce(one: Workload, machine: Machine, faults: Faults, classes: Classes, mba: int) -> Workload:
    """The workload as it is after its enforcement. `mba` is the daemon's MBA value. Raises Failure."""
    demand = demand_of(one, machine, mba)
    if demand.use_cache or demand.use_mba:
        free = _free(classes, demand.pool)
        ways = _choose(demand, machine, free) if demand.use_cache else {}
        name = _commit(one, demand, machine, faults, classes, ways, mba)
        one = replace(one, cos_name=name)
    return replace(one, status=SUCCESSFUL)


def release(one: Workload, machine: Machine, classes: Classes) -> None:
    """Give back the class of a workload, and its CPUs and tasks to the operating system. Raises Failure."""
    if not one.cos_name:
        return
    classes.leave(parsed(one.core_ids, cpus=machine.cpu_count) if one.core_ids else 0, one.task_ids)
    if one.cos_name == classes.shared:
        left = classes.present().get(one.cos_name)
        if left is not None and (left.cpus or left.tasks):
            classes.set_os()
            return
    classes.reset(one.cos_name)
    classes.give_back(one.cos_name)
    classes.set_os()


def _free(classes: Classes, pool: str) -> dict[int, int]:
    try:
        return classes.free_ways(pool, ignored=(INFRA, OS))
    except Failure as error:
        raise Failure(f"Unable to read cache schemata; {error.text}", INTERNAL) from None


def _choose(demand: Demand, machine: Machine, free: dict[int, int]) -> dict[int, int]:
    chosen: dict[int, int] = {}
    reserved = machine.reserved(demand.pool) or {}
    for cache, mask in free.items():
        if demand.pool == SHARED:
            chosen[cache] = reserved[cache]
        elif demand.caches and cache not in demand.caches:
            chosen[cache] = machine.full
        elif demand.pool == GUARANTEED:
            chosen[cache] = highest(mask, demand.most)
        else:
            chosen[cache] = _best_effort(demand, machine, mask, reserved[cache])
        if not chosen[cache]:
            raise Failure(f"Not enough cache left on cache_id {cache}")
    return chosen


def _best_effort(demand: Demand, machine: Machine, free: int, reserved: int) -> int:
    """The most neighboring ways that are free, up to the maximum of the workload; 0 where the minimum is not free.

    With `shrink` the lowest ways of the pool are given a second time: the daemon looks for the workloads that it should
    shrink by a name that classes have no more.
    """
    longest = max((length for _, length in runs(free)), default=0)
    if longest >= demand.least:
        return highest(free, min(longest, demand.most))
    return lowest(reserved, demand.least) if machine.shrink else 0


def _commit(
    one: Workload,
    demand: Demand,
    machine: Machine,
    faults: Faults,
    classes: Classes,
    ways: dict[int, int],
    mba: int,
) -> str:
    before = classes.present()
    name = classes.take_shared() if demand.pool == SHARED else classes.take()
    if demand.use_mba and demand.pool == SHARED:
        raise Failure("MBA forbidden for shared group", INTERNAL)
    settings = Settings(ways or {cache.id: machine.full for cache in machine.caches})
    if name in before:
        settings.ways, settings.tasks = before[name].ways, before[name].tasks
    if demand.use_mba:
        near = demand.caches or frozenset(cache.id for cache in machine.caches)
        settings.mba = {cache.id: mba if cache.id in near else machine.max_mba for cache in machine.caches}
    settings.cpus, settings.tasks = demand.cpus, (*settings.tasks, *one.task_ids)
    classes.commit(name, settings)
    try:
        classes.set_os()
    except Failure as error:
        if faults.last_class_lost:
            classes.destroy(name)
            message = "Error while try to commit resource group for default group."
            raise detailed(message, error.text, INTERNAL) from None
    return name
