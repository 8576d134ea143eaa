"""What a daemon says of the level 3 caches of its machine, RMD v0.3. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.rmd.cores import cores_in, parse_cores, parse_ranges
from app.rmd.daemon.wire import Malformed

MOST_WAYS = 32
"""Of one cache: resctrl has a mask of 32 bits for them."""
_DIGITS = 4
"""Of the number of a NUMA node: Linux has 1024 at most."""
GUARANTEED = "guaranteed"
"""The pool of reservations whose max and min are the same, as the answer calls it."""


@dataclass(frozen=True, slots=True)
class Cache:
    """`free` are the ways that no reservation has, by pool; a pool that is not configured is absent.

    `numa` is None where the daemon does not say the NUMA node as a number.
    """

    id: str
    cores: frozenset[int]
    numa: int | None
    free: Mapping[str, frozenset[int]]


def read_caches(document: Any) -> tuple[Cache, ...]:
    """The answer to GET /v1/cache/l3, by the ids of caches. Raises Malformed."""
    try:
        members = document.get("Caches") or document.get("caches") or {}
        found = tuple(_cache(str(name), one) for name, one in sorted(members.items()))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Malformed(f"not a list of caches: {error}") from error
    if not any(cache.cores for cache in found):
        raise Malformed("no level 3 cache has a core")
    return found


def _cache(name: str, one: Any) -> Cache:
    numa = str(one.get("location_on_node", ""))
    pools = one.get("available_ways_pool") or {}
    return Cache(
        id=name,
        cores=parse_cores(one["share_cpu_list"]),
        numa=int(numa) if numa.isascii() and numa.isdigit() and len(numa) <= _DIGITS else None,
        free={str(pool): _ways(ways) for pool, ways in pools.items()},
    )


def _ways(text: str) -> frozenset[int]:
    ranges = parse_ranges(text)
    if ranges and ranges[-1][1] >= MOST_WAYS:
        raise ValueError(f"want ways below {MOST_WAYS}")
    return cores_in(ranges)
