"""What a daemon says of the level 3 caches of its machine, RMD v0.3. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.rmd.cores import parse_cores
from app.rmd.daemon.wire import Malformed

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
    if not any(one.cores for one in found):
        raise Malformed("no level 3 cache has a core")
    return found


def _cache(name: str, one: Any) -> Cache:
    numa = str(one.get("location_on_node", ""))
    pools = one.get("available_ways_pool") or {}
    return Cache(
        id=name,
        cores=parse_cores(one["share_cpu_list"]),
        numa=int(numa) if numa.isascii() and numa.isdigit() else None,
        free={str(pool): parse_cores(ways) for pool, ways in pools.items()},
    )
