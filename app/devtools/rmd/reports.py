"""Reports of caches, policies, MBA, and of how much more fits, as JSON. Nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping

from app.devtools.rmd.bits import mask_of, runs, text_of
from app.devtools.rmd.classes import OS, Classes
from app.devtools.rmd.failures import INTERNAL, Crash, Failure, detailed
from app.devtools.rmd.machine import Cache, Machine
from app.devtools.rmd.pools import BESTEFFORT, GUARANTEED, SHARED, pool_of
from app.devtools.rmd.validation import platform_fault, policy_of
from app.devtools.rmd.workloads import Daemon
from app.wire import JSON

_POOLS = {"guaranteed": GUARANTEED, "besteffort": BESTEFFORT, "shared": SHARED, "infra": "infra", "os": "os"}
"""The pools by the names that /cache has for them."""
_IGNORED = (OS,)
"""Unlike enforcement, the reports count the class of the infrastructure: its pool is shown without free ways."""


def cache_summary(machine: Machine) -> JSON:
    """`GET /cache`."""
    ids = [str(cache.id) for cache in machine.caches]
    cores = [str(number) for number in range(machine.cpu_count)]
    return {
        "rdt": machine.cat or machine.mba != "none",
        "cqm": True,
        "cdp": False,
        "cdp_enable": False,
        "cat": machine.cat or machine.mba != "none",
        "cat_enable": machine.cat,
        "caches": {"l2": {"number": len(cores), "caches_id": cores}, "l3": {"number": len(ids), "caches_id": ids}},
    }


def caches(daemon: Daemon) -> JSON:
    """`GET /cache/l3`. Raises Failure where all classes are taken, or a policy has no cache."""
    shown = {str(one.id): _cache(one, daemon.machine, daemon.classes) for one in daemon.machine.caches}
    return {"number": len(shown), "Caches": dict(sorted(shown.items()))}


def policies(machine: Machine) -> Mapping[str, object]:
    """`GET /policy`: those of this micro-architecture. Raises Failure with status 404."""
    try:
        found = machine.policies[machine.architecture]
    except KeyError:
        raise Failure("Failed to load policy", 404) from KeyError(platform_fault(machine))
    return dict(sorted(found.items()))


def mba(machine: Machine) -> JSON:
    """`GET /mba`: the step and the least value of the hardware."""
    if machine.mba == "none":
        return {"mba": False}
    return {"mba": True, "mba_enable": True, "mba_step": machine.mba_step, "mba_min": machine.mba_min}


def hospitality(daemon: Daemon, asked: JSON) -> JSON:
    """`POST /hospitality`: how well a workload would fit on each cache, 0 to 100. Raises Failure and Crash.

    With a policy it fails always: the daemon reads its numbers as another type than they are. Without a shared pool it
    panics where that pool is asked for.
    """
    if asked.get("policy"):
        try:
            policy_of(asked["policy"], daemon.machine)
        except Failure as error:
            raise detailed("Can not find Policy", error.text, INTERNAL) from None
        raise Failure("Unknown AppError type!", INTERNAL)
    most, least = asked.get("max_cache") or 0, asked.get("min_cache") or 0
    if most == 0 != least:
        raise Failure(f"Bad request, max_cache={most}, min_cache={least}", INTERNAL)
    try:
        pool = pool_of(most, least)
    except ValueError:
        raise Failure(f"Bad request, max_cache={most}, min_cache={least}", INTERNAL) from None
    if pool == SHARED and not daemon.machine.shared:
        raise Crash
    free = _free(daemon.classes, pool) or {}
    shared = 100 if daemon.machine.max_allowed_shared else 0
    scores = {key: shared if pool == SHARED else _score(mask, most, least) for key, mask in free.items()}
    wanted = asked.get("cache_id")
    return {"score": {"l3": {str(key): score for key, score in scores.items() if wanted in (None, key)}}}


def _cache(one: Cache, machine: Machine, classes: Classes) -> JSON:
    cpus, used = mask_of(one.cpus), 0
    for name, settings in classes.present().items():
        used |= settings.cpus if name != OS else 0
    free = cpus & ~mask_of(machine.os.cpus) & ~mask_of(machine.infra.cpus) & ~used
    pools = {shown: _free(classes, pool) for shown, pool in _POOLS.items()}
    return {
        "cache_id": one.id,
        "NumWays": machine.ways,
        "NumSets": machine.sets,
        "NumPartitions": 0,
        "LineSize": machine.line_size,
        "total_size": machine.ways * machine.sets * machine.line_size,
        "WaySize": machine.sets * machine.line_size,
        "NumClasses": 0,
        "WayContention": 0,
        "CacheLevel": 3,
        "location_on_socket": str(one.socket),
        "location_on_node": str(one.node),
        "share_cpu_list": one.cpus,
        "available_ways": f"{_all_free(classes)[one.id]:x}",
        "available_cpus": text_of(free),
        "available_isolated_cpus": text_of(free & mask_of(machine.isolated)),
        "available_policy": _policy_counts(one, machine, classes),
        "available_ways_pool": {name: text_of(ways[one.id]) for name, ways in sorted(pools.items()) if ways},
    }


def _all_free(classes: Classes) -> dict[int, int]:
    try:
        return classes.free_ways("none", ignored=())
    except Failure as error:
        raise Failure(f"Unable to read cache schemata; {error.text}", INTERNAL) from None


def _free(classes: Classes, pool: str) -> dict[int, int] | None:
    try:
        return classes.free_ways(pool, ignored=_IGNORED)
    except Failure as error:
        if "error doesn't support pool" in error.text:
            return None
        raise Failure(f"Unable to read cache schemata; {error.text}", INTERNAL) from None


def _policy_counts(one: Cache, machine: Machine, classes: Classes) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, modules in sorted(machine.policies.get(machine.architecture, {}).items()):
        cache = modules.get("cache", {})
        for end in ("max", "min"):
            if end not in cache:
                raise Failure(f"{end.capitalize()} cache doesn't exist in policy", INTERNAL)
        pool = pool_of(cache["max"], cache["min"])
        if pool == SHARED:
            counts[name] = machine.max_allowed_shared if machine.shared else 0
            continue
        ways = cache["max"] if pool == GUARANTEED else cache["min"]
        counts[name] = sum(length // ways for _, length in runs((_free(classes, pool) or {}).get(one.id, 0)))
    return counts


def _score(free: int, most: int, least: int) -> int:
    longest = max((length for _, length in runs(free) if length >= least), default=0)
    return min(100, longest * 100 // most)
