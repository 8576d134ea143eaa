"""The description of the machine that the stand-in claims to run on. Pure data.

The defaults are those of the daemon's configuration, on one socket with 11 ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.devtools.rmd.bits import mask_of

MAX_PERCENTAGE = 100
MAX_MBPS = 4294967290
Mode = Literal["none", "percentage", "mbps"]
Policies = Mapping[str, Mapping[str, Mapping[str, int]]]
"""What each policy sets of each module: `{"gold": {"cache": {"max": 4, "min": 4}}}`."""


def _policies(**ways: tuple[int, int]) -> Policies:
    return {name: {"cache": {"max": most, "min": least}} for name, (most, least) in ways.items()}


POLICIES: Mapping[str, Policies] = {
    "broadwell": _policies(gold=(2, 2), silver=(2, 1), bronze=(0, 0)),
    "skylake": _policies(gold=(4, 4), silver=(3, 1), bronze=(0, 0)),
}
"""The policies of each micro-architecture that the daemon's policy file has."""


@dataclass(frozen=True, slots=True)
class Cache:
    """One L3 cache: its CPUs, the socket and the NUMA node it is on."""

    id: int
    cpus: str
    socket: int = 0
    node: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Ways and CPUs that are reserved for the operating system or the infrastructure; no ways: not configured."""

    ways: int = 0
    cpus: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware and configuration. `mba` is the mode of memory bandwidth allocation; "none": the CPU has none.

    A pool without ways is not configured. `classes` counts the classes of service, of which two are reserved.
    `isolated` has the CPUs that the kernel isolates. `architecture` is the CPU's micro-architecture; "" is unknown.
    """

    caches: tuple[Cache, ...] = (Cache(0, "0-7"),)
    ways: int = 11
    guaranteed: int = 6
    besteffort: int = 3
    shared: int = 1
    shrink: bool = False
    max_allowed_shared: int = 10
    os: Group = Group(1, "0")
    infra: Group = Group()
    classes: int = 16
    cat: bool = True
    mba: Mode = "percentage"
    mba_step: int = 10
    mba_min: int = 10
    plugins: frozenset[str] = frozenset({"pstate"})
    architecture: str = "skylake"
    policies: Mapping[str, Policies] = field(default_factory=lambda: POLICIES)
    isolated: str = ""
    line_size: int = 64
    sets: int = 32768

    def __post_init__(self) -> None:
        """Raises ValueError where the pools are larger than the cache, as the daemon refuses such a configuration."""
        if self.os.ways + self.guaranteed + self.besteffort + self.shared > self.ways:
            raise ValueError(
                "Error config: Guarantee + Besteffort + Shared + OS reserved ways should be less or equal to "
                f"{self.ways}"
            )

    @property
    def full(self) -> int:
        """The mask of all ways of a cache."""
        return (1 << self.ways) - 1

    @property
    def cpu_count(self) -> int:
        """One more than the highest CPU of the caches."""
        return max(mask_of(cache.cpus).bit_length() for cache in self.caches)

    @property
    def max_mba(self) -> int:
        """The highest value of the mode; 0 without memory bandwidth allocation, as in the daemon."""
        return {"none": 0, "percentage": MAX_PERCENTAGE, "mbps": MAX_MBPS}[self.mba]

    def reserved(self, pool: str) -> dict[int, int] | None:
        """The ways of a pool on each cache, as masks; None: the pool is not configured."""
        match pool:
            case "none":
                return {cache.id: self.full for cache in self.caches}
            case "os":
                return {one.id: (1 << self.os.ways) - 1 if self._has(one, self.os) else 0 for one in self.caches}
            case "infra":
                high = ((1 << self.infra.ways) - 1) << (self.ways - self.infra.ways)
                caches = self.caches if self.infra.ways else ()
                return {one.id: high if self._has(one, self.infra) else 0 for one in caches}
        sizes = {"guarantee": self.guaranteed, "besteffort": self.besteffort, "shared": self.shared}
        offsets = {"guarantee": 0, "besteffort": self.guaranteed, "shared": self.guaranteed + self.besteffort}
        if not sizes[pool]:
            return None
        mask = ((1 << sizes[pool]) - 1) << offsets[pool]
        return {one.id: mask << (self.os.ways if self._has(one, self.os) else 0) for one in self.caches}

    def _has(self, cache: Cache, group: Group) -> bool:
        return bool(mask_of(cache.cpus) & mask_of(group.cpus))
