"""The pool of a workload, and what is to be enforced of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.devtools.rmd.bits import mask_of, parsed
from app.devtools.rmd.failures import INTERNAL, Failure, detailed
from app.devtools.rmd.machine import Machine
from app.devtools.rmd.model import Workload
from app.devtools.rmd.validation import policy_of

SHARED, BESTEFFORT, GUARANTEED = "shared", "besteffort", "guarantee"


@dataclass(frozen=True, slots=True)
class Demand:
    """What is to be enforced. `pool` is "none" without cache; `caches` are those of the workload's CPUs."""

    most: int
    least: int
    pool: str
    use_cache: bool
    use_mba: bool
    cpus: int
    caches: frozenset[int]


def pool_of(most: int, least: int) -> str:
    """The pool for these ways. Raises ValueError with the daemon's text where there is none."""
    if most == 0:
        return SHARED
    if most > least and least != 0:
        return BESTEFFORT
    if most == least:
        return GUARANTEED
    raise ValueError(f"max_cache={most}, min_cache={least}, doesn't support")


def demand_of(one: Workload, machine: Machine, mba: int) -> Demand:
    """What is to be enforced of a workload. `mba` is the daemon's MBA value. Raises Failure and Crash."""
    try:
        cpus = parsed(one.core_ids, cpus=machine.cpu_count)
    except ValueError as error:
        raise detailed("Failed to Parse workload coreIDs.", error) from None
    touched = cpus if not one.task_ids else mask_of(",".join(cache.cpus for cache in machine.caches))
    caches = frozenset(cache.id for cache in machine.caches if touched & mask_of(cache.cpus))
    most, least = _ways(one, machine)
    use_mba = not one.policy and one.mba is not None
    if use_mba:
        _check_mba(one, machine, mba)
    use_cache = most is not None and least is not None
    most, least = most or 0, least or 0
    if least > most:
        raise Failure("Min cache value cannot be greater than max cache value", INTERNAL)
    try:
        pool = pool_of(most, least) if use_cache else "none"
    except ValueError as error:
        raise detailed("Bad cache ways request", error) from None
    return Demand(most, least, pool, use_cache, use_mba, cpus, caches)


def _ways(one: Workload, machine: Machine) -> tuple[int | None, int | None]:
    if not one.policy:
        return one.max, one.min
    try:
        cache = policy_of(one.policy, machine).get("cache", {})
    except Failure as error:
        raise detailed("Could not find the Policy.", error.text, INTERNAL) from None
    return cache.get("max"), cache.get("min")


def _check_mba(one: Workload, machine: Machine, mba: int) -> None:
    if machine.mba == "none":
        raise Failure("MBA is not supported in this machine", INTERNAL)
    guaranteed = one.max == one.min and one.max != 0
    if one.max is not None and one.min is not None and not guaranteed and mba != machine.max_mba:
        raise Failure("MBA is only supported for Guarantee Cache Request", INTERNAL)
