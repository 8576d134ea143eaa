"""How many cache ways a node has to give: the guaranteed pool of its daemon. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from app.rmd.daemon.caches import GUARANTEED, MOST_WAYS, Cache
from app.rmd.daemon.wire import Malformed, Reservation


class Pool(NamedTuple):
    """The ways of one level 3 cache; `numa` is its NUMA node, None where it is not known."""

    cache: str
    ways: int
    numa: int | None

    @property
    def ids(self) -> tuple[str, ...]:
        """Devices are counted, and no id stands for a certain way: a daemon chooses the ways by itself."""
        return tuple(f"{self.cache}-{number}" for number in range(self.ways))


def pools_of(caches: Iterable[Cache], reservations: Iterable[Reservation]) -> tuple[Pool, ...]:
    """A daemon tells the free ways of a pool. Those of its reservations belong to the pool as well.

    Raises Malformed where that is more than a cache can have: each way becomes a device.
    """
    guaranteed = [one for one in reservations if one.settings.cache and one.settings.cache[0] == one.settings.cache[1]]
    found = []
    for cache in caches:
        free = cache.free.get(GUARANTEED)
        if free is not None:
            used = [one.settings.cache[0] for one in guaranteed if one.settings.cache and _is_on(one, cache)]
            ways = len(free) + sum(used)
            if ways > MOST_WAYS:
                raise Malformed(f"cache {cache.id}: {ways} guaranteed ways: want at most {MOST_WAYS}")
            found.append(Pool(cache.id, ways, cache.numa))
    return tuple(found)


def _is_on(reservation: Reservation, cache: Cache) -> bool:
    return bool(cache.cores & (reservation.cores or frozenset()))
