"""The machine of a stand-in daemon: caches, pools, classes of service, policies. And what the daemon says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.rmd.cores import ranges_of
from app.wire import JSON

Pool = Literal["guarantee", "besteffort", "shared"]
_SHOWN: Mapping[Pool, str] = {"guarantee": "guaranteed", "besteffort": "besteffort", "shared": "shared"}
"""The names in `available_ways_pool`, where they differ from those in the texts of errors."""
MOST_PERCENTAGE, MOST_MBPS = 100, 4294967290
SKYLAKE: Mapping[str, tuple[int, int]] = {"gold": (4, 4), "silver": (3, 1), "bronze": (0, 0)}
BROADWELL: Mapping[str, tuple[int, int]] = {"gold": (2, 2), "silver": (2, 1), "bronze": (0, 0)}


@dataclass(frozen=True, slots=True)
class L3:
    """A cache of level 3, and the cores that share it."""

    id: str
    cores: frozenset[int]


def _two_sockets() -> tuple[L3, ...]:
    return L3("0", frozenset(range(16))), L3("1", frozenset(range(16, 32)))


@dataclass(frozen=True, slots=True)
class Machine:
    """`pools` are ways of each cache; one that is missing is not configured. `classes` is how many requests can have.

    `mba` is the mode of the daemon; `cat` False is a machine that has MBA alone. `policies` are (max, min) by name.
    """

    caches: tuple[L3, ...] = field(default_factory=_two_sockets)
    ways: int = 11
    pools: Mapping[Pool, frozenset[int]] = field(
        default_factory=lambda: {
            "guarantee": frozenset(range(1, 7)),
            "besteffort": frozenset(range(7, 10)),
            "shared": frozenset({10}),
        }
    )
    classes: int = 13
    cat: bool = True
    mba: Literal["none", "percentage", "mbps"] = "percentage"
    plugins: frozenset[str] = frozenset({"pstate"})
    policies: Mapping[str, tuple[int, int]] = field(default_factory=lambda: SKYLAKE)

    @property
    def cores(self) -> frozenset[int]:
        return frozenset().union(*(one.cores for one in self.caches))

    @property
    def most_bandwidth(self) -> int:
        return MOST_MBPS if self.mba == "mbps" else MOST_PERCENTAGE

    def caches_of(self, cores: frozenset[int]) -> list[L3]:
        return [one for one in self.caches if one.cores & cores]


def pool_of(most: int, least: int) -> Pool | None:
    """Which pool a request takes its ways from; None for numbers that fit none."""
    if most == 0:
        return "shared"
    if most > least and least != 0:
        return "besteffort"
    return "guarantee" if most == least else None


def caches_document(machine: Machine, free: Mapping[str, Mapping[Pool, frozenset[int]]]) -> JSON:
    """The answer to /v1/cache/l3. `free` are the ways that are left, by cache and pool."""
    return {
        "number": len(machine.caches),
        "Caches": {one.id: _cache_document(machine, one, free[one.id]) for one in machine.caches},
    }


def _cache_document(machine: Machine, one: L3, free: Mapping[Pool, frozenset[int]]) -> JSON:
    ways = sum(1 << way for way in frozenset().union(*free.values(), frozenset({0})))
    cores = ",".join(ranges_of(one.cores))
    return {
        "cache_id": int(one.id),
        "NumWays": machine.ways,
        "NumSets": 2048,
        "NumPartitions": 1,
        "LineSize": 64,
        "total_size": str(machine.ways * 2048 * 64),
        "WaySize": 2048 * 64,
        "NumClasses": machine.classes + 2,
        "WayContention": 0,
        "CacheLevel": 3,
        "location_on_socket": int(one.id),
        "location_on_node": one.id,
        "share_cpu_list": cores,
        "available_ways": f"{ways:x}",
        "available_cpus": cores,
        "available_isolated_cpus": "",
        "available_policy": {name: len(machine.pools) for name in machine.policies},
        "available_ways_pool": {
            "os": "0",
            **{_SHOWN[pool]: ",".join(ranges_of(free[pool])) for pool in machine.pools},
        },
    }


def summary_document(machine: Machine) -> JSON:
    """The answer to /v1/cache."""
    ids = [one.id for one in machine.caches]
    return {
        "rdt": True,
        "cqm": False,
        "cdp": False,
        "cdp_enable": False,
        "cat": machine.cat,
        "cat_enable": machine.cat,
        "caches": {"l3": {"number": len(ids), "caches_id": ids}},
    }
