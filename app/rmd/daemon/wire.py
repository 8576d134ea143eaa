"""What is sent to a daemon of RMD v0.3 and read of its answers: reservations, caches, refusals. Pure.

A daemon calls a reservation a workload. Why it refuses, it says as text alone; its status codes
do not tell reasons apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.rmd.cores import cores_in, parse_cores, parse_ranges
from app.rmd.requests import Settings
from app.wire import JSON, mapping

REST = "REST"
"""The origin of reservations that came by this API. A daemon lets clients change no others."""
MOST_WAYS = 32
"""Of one cache: resctrl has a mask of 32 bits for them."""
_DIGITS = 4
"""Of the number of a NUMA node: Linux has 1024 at most."""
GUARANTEED = "guaranteed"
"""The pool of reservations whose max and min are the same, as the answer calls it."""
CLASSES_USED_UP: Final = "ClassesUsedUp"
CORES_TAKEN: Final = "CoresTaken"
OTHER: Final = "Other"
NO_ANSWER: Final = "no answer to this request"
"""How a text of ours begins where a daemon said nothing."""
_TEXTS: Final = (
    (NO_ANSWER, "NoAnswer"),
    ("not enough CLOS", CLASSES_USED_UP),
    ("No free CLOS", CLASSES_USED_UP),
    ("has been assigned", CORES_TAKEN),
    ("Not enough cache left", "CacheUsedUp"),
    ("doesn't support pool", "NoPool"),
    ("Could not find the Policy", "UnknownPolicy"),
    ("module that is not loaded", "NoPlugin"),
    ("Please provide MBA", "BandwidthUnit"),
    ("This machine supports only", "NotOnThisMachine"),
    ("is not authorized", "Unauthorized"),
    ("already exists in workload", "Duplicate"),
)
REASONS: Final = tuple(dict.fromkeys((*(reason for _, reason in _TEXTS), OTHER)))


class Malformed(ValueError):
    """The daemon answers with something that is no reservation; the text says what."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a daemon holds. `cores` is None where they cannot be read, `document` what the daemon said."""

    id: str
    uuid: str
    cores: frozenset[int] | None
    settings: Settings
    status: str
    cos: str
    origin: str
    core_ids: tuple[str, ...]
    tasks: bool

    @property
    def addressable(self) -> bool:
        """Whether a request can name it: the routes of a daemon take digits alone."""
        return self.id.isascii() and self.id.isdigit()


def body_of(uuid: str, core_ids: Sequence[str], settings: Settings) -> JSON:
    """The body of a POST. A daemon reads a text of `core_ids` with commas for cache ways, and not for P-states."""
    body: JSON = {"uuid": uuid, "core_ids": list(core_ids)}
    if settings.policy:
        body["policy"] = settings.policy
    rdt: JSON = {}
    if settings.cache is not None:
        rdt["cache"] = {"max": settings.cache[0], "min": settings.cache[1]}
    if settings.percentage is not None:
        rdt["mba"] = {"percentage": settings.percentage}
    elif settings.mbps is not None:
        rdt["mba"] = {"mbps": settings.mbps}
    if rdt:
        body["rdt"] = rdt
    if settings.plugins:
        pstate: JSON = {}
        if settings.ratio is not None:
            pstate["ratio"] = settings.ratio
        if settings.monitoring:
            pstate["monitoring"] = settings.monitoring
        body["plugins"] = {"pstate": pstate}
    return body


def read_reservation(document: Any) -> Reservation:
    """Raises Malformed."""
    try:
        rdt = document.get("rdt") or {}
        ratio, monitoring = _pstate(document.get("plugins"))
        cache, mba = rdt.get("cache") or {}, rdt.get("mba") or {}
        core_ids = tuple(_text(item) for item in document.get("core_ids") or ())
        return Reservation(
            id=_text(document.get("id")),
            uuid=_text(document.get("uuid")),
            cores=_cores(core_ids),
            settings=Settings(
                policy=_text(document.get("policy")),
                cache=(_number(cache["max"]), _number(cache.get("min", 0))) if "max" in cache else None,
                percentage=_number(mba["percentage"]) if mba.get("percentage") else None,
                mbps=_number(mba["mbps"]) if mba.get("mbps") else None,
                ratio=ratio,
                monitoring=monitoring,
            ),
            status=_text(document.get("status")),
            cos=_text(document.get("cos_name")),
            origin=_text(document.get("origin")),
            core_ids=core_ids,
            tasks=bool(document.get("task_ids")),
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise Malformed(f"not a workload: {error}") from error


def read_reservations(document: Any) -> tuple[Reservation, ...]:
    """The answer to a GET of all. One that cannot be read costs no other: it has no cores, and its status says why.

    Raises Malformed for what is no list, and where none of the reservations can be read.
    """
    if not isinstance(document, list):
        raise Malformed("want a list of workloads")
    reservations, faults = list[Reservation](), list[Malformed]()
    for item in document:
        try:
            reservations.append(read_reservation(item))
        except Malformed as error:
            faults.append(error)
            reservations.append(_unread(item, error))
    if faults and len(faults) == len(reservations):
        raise faults[0]
    return tuple(reservations)


def _unread(document: Any, error: Malformed) -> Reservation:
    """What can be told of it: by whose name and id it may be released."""
    members = mapping(document)
    name, number, origin = (
        value if isinstance(value := members.get(field), str) else "" for field in ("uuid", "id", "origin")
    )
    return Reservation(
        id=number,
        uuid=name,
        cores=None,
        settings=Settings(),
        status=f"cannot be read: {error}",
        cos="",
        origin=origin,
        core_ids=(),
        tasks=False,
    )


def _pstate(plugins: Any) -> tuple[float | None, str]:
    """Ratio and monitoring. A daemon keeps of plugins what any client sends: what cannot be read is no number."""
    try:
        pstate = (plugins or {}).get("pstate") or {}
        return float(pstate["ratio"]) if pstate.get("ratio") else None, _text(pstate.get("monitoring"))
    except (AttributeError, TypeError, ValueError):
        return math.nan, ""


def holds(reservation: Reservation, cores: frozenset[int], settings: Settings) -> bool:
    """Whether the daemon holds what is asked for. With a policy its cache ways are those of the policy."""
    held = reservation.settings
    if reservation.cores != cores or reservation.tasks or held.policy != settings.policy:
        return False
    if held.monitoring != settings.monitoring or not _same_ratio(held.ratio, settings.ratio):
        return False
    if settings.policy:
        return True
    return (held.cache, held.percentage, held.mbps) == (settings.cache, settings.percentage, settings.mbps)


def _same_ratio(ratio: float | None, other: float | None) -> bool:
    return ratio == other or (ratio is not None and other is not None and math.isclose(ratio, other, rel_tol=1e-6))


def _cores(items: tuple[str, ...]) -> frozenset[int] | None:
    try:
        return cores_in(part for item in items for part in parse_ranges(item))
    except ValueError:
        return None


def _text(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"want a text, got {type(value).__name__}")
    return value or ""


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"want a number, got {type(value).__name__}")
    if not 0 <= value < 2**32:
        raise ValueError("want a number of 32 bits without a sign, as a daemon has it")
    return value


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
        caches = tuple(_cache(str(name), member) for name, member in sorted(members.items()))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Malformed(f"not a list of caches: {error}") from error
    if not any(cache.cores for cache in caches):
        raise Malformed("no level 3 cache has a core")
    return caches


def _cache(name: str, members: Any) -> Cache:
    numa = str(members.get("location_on_node", ""))
    pools = members.get("available_ways_pool") or {}
    return Cache(
        id=name,
        cores=parse_cores(members["share_cpu_list"]),
        numa=int(numa) if numa.isascii() and numa.isdigit() and len(numa) <= _DIGITS else None,
        free={str(pool): _ways(ways) for pool, ways in pools.items()},
    )


def _ways(text: str) -> frozenset[int]:
    ranges = parse_ranges(text)
    if ranges and ranges[-1][1] >= MOST_WAYS:
        raise ValueError(f"want ways below {MOST_WAYS}")
    return cores_in(ranges)


def reason_of(text: str) -> str:
    """One of REASONS."""
    return next((reason for part, reason in _TEXTS if part in text), OTHER)
