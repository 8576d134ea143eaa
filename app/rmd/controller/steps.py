"""What has to be done on one daemon: planned, carried out, and what the daemon does not hold after it.

A daemon's PATCH is never used. With memory bandwidth it may apply the value of another request. With other cores it
always fails. Where it fails midway, the daemon goes on to report the old reservation, and a class of service that
another one may have got. Release and reserve have the same effect, and each of the two says what became of it.
A daemon that a request kills, or that never answers it, must not cost more than the RmdWorkload of this request.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from app.kube.retry import Backoff
from app.kube.store import Key
from app.rmd import metrics
from app.rmd.cores import numbers_of, ranges_of
from app.rmd.daemon.client import Daemon, Refused, Unanswered
from app.rmd.daemon.wire import NO_ANSWER, REST, Reservation, body_of, holds
from app.rmd.model import uuid_of
from app.rmd.requests import Settings

_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_AFTER_END = 2.0, 60.0, 600.0
"""Seconds until a request without an answer is made again; longer where the daemon did not survive it."""
_MOST_UNANSWERED = 3
"""Requests without an answer in one pass: each may take the whole time for an answer."""
_LATER = f"not asked yet: the daemon has given no answer to {_MOST_UNANSWERED} other requests"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A reservation that a node should have. `known` is the id that the status of the RmdWorkload has.

    `numbered`: the RmdWorkload names each core alone. `last`: its request had no answer, and is made after all others.
    """

    key: Key
    created: str
    cores: frozenset[int]
    settings: Settings
    known: str = ""
    numbered: bool = False
    last: bool = False

    @property
    def uuid(self) -> str:
        return uuid_of(*self.key)

    @property
    def core_ids(self) -> tuple[str, ...]:
        """The cores as the daemon is sent them, and shows them then: numbers or ranges, as the RmdWorkload has them."""
        return numbers_of(self.cores) if self.numbered else ranges_of(self.cores)


@dataclass(frozen=True, slots=True)
class Leaving:
    """An RmdWorkload that should have nothing on the node any more. `last` as of a Wanted."""

    key: Key
    known: str = ""
    last: bool = False

    @property
    def uuid(self) -> str:
        return uuid_of(*self.key)


Owner = Wanted | Leaving


@dataclass(frozen=True, slots=True)
class DaemonPlan:
    """Steps, in this order: release, then reserve the oldest first. `held` needs none, `foreign` may not be touched.

    `blocked` are wanted ones whose uuid is held by a reservation that this API cannot release.
    """

    release: tuple[tuple[Owner, Reservation], ...]
    reserve: tuple[Wanted, ...]
    held: tuple[tuple[Wanted, Reservation], ...]
    blocked: tuple[tuple[Owner, Reservation], ...]
    foreign: tuple[Reservation, ...]


def plan_node(
    workloads: Sequence[Wanted], leaving: Sequence[Leaving], reservations: Sequence[Reservation]
) -> DaemonPlan:
    """Reservations of no RmdWorkload are left alone. The class of service of each has to be its own."""
    shared = _shared_classes(reservations)
    release: list[tuple[Owner, Reservation]] = []
    reserve: list[Wanted] = []
    held: list[tuple[Wanted, Reservation]] = []
    blocked: list[tuple[Owner, Reservation]] = []
    owners: tuple[Owner, ...] = (*workloads, *leaving)
    ours: set[int] = set()
    for owner in owners:
        mine = [index for index, candidate in enumerate(reservations) if _is_of(candidate, owner)]
        ours.update(mine)
        stuck = next((reservations[index] for index in mine if not _may_go(reservations[index])), None)
        if stuck is not None:
            blocked.append((owner, stuck))
            continue
        kept = None
        if isinstance(owner, Wanted):
            kept = next((reservations[index] for index in mine if _as_wanted(reservations[index], owner, shared)), None)
            if kept is None:
                reserve.append(owner)
            else:
                held.append((owner, kept))
        release.extend((owner, reservations[index]) for index in mine if reservations[index] is not kept)
    reserve.sort(key=lambda workload: (workload.created, workload.key))
    foreign = tuple(reservation for index, reservation in enumerate(reservations) if index not in ours)
    return DaemonPlan(tuple(release), tuple(reserve), tuple(held), tuple(blocked), foreign)


def _is_of(reservation: Reservation, owner: Owner) -> bool:
    """By our uuid; or by that of the operator, a name alone, where the status has the same id."""
    if reservation.uuid == owner.uuid:
        return True
    return bool(owner.known) and (reservation.uuid, reservation.id) == (owner.key[1], owner.known)


def _may_go(reservation: Reservation) -> bool:
    return reservation.addressable and reservation.origin == REST


def _as_wanted(reservation: Reservation, workload: Wanted, shared: Collection[str]) -> bool:
    return reservation.cos not in shared and holds(reservation, workload.cores, workload.settings)


def _shared_classes(reservations: Iterable[Reservation]) -> frozenset[str]:
    """Classes of service that a reservation with ways or bandwidth of its own shares: the PATCH of a client has failed.

    Reservations of the shared pool have one class together.
    """
    counted = Counter(reservation.cos for reservation in reservations if reservation.cos)
    own = {
        reservation.cos
        for reservation in reservations
        if reservation.settings.cache not in (None, (0, 0)) or reservation.settings.bandwidth
    }
    return frozenset(name for name, times in counted.items() if times > 1 and name in own)


@dataclass(slots=True)
class _Pause:
    asked: object
    text: str
    times: int
    until: float
    ended: bool


class Pauses:
    """The requests of one daemon that had no answer: they are made after all others, and after growing pauses.

    They are kept in memory, and the statuses of RmdWorkloads say which have to come last after a restart.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._found: dict[Key, _Pause] = {}

    def keep(self, plan: DaemonPlan) -> None:
        """Forget those that the plan has not, or with other words."""
        owners = {owner.key: owner for owner in (*(owner for owner, _ in plan.release), *plan.reserve)}
        for key in [
            key for key, pause in self._found.items() if key not in owners or pause.asked != _asked(owners[key])
        ]:
            del self._found[key]

    def text_of(self, key: Key) -> str:
        """What is said of a request without an answer, "" of any other."""
        return self._found[key].text if key in self._found else ""

    def waiting(self, key: Key) -> bool:
        return key in self._found and asyncio.get_running_loop().time() < self._found[key].until

    def in_turn(self, plan: DaemonPlan) -> list[tuple[Owner, Reservation | None]]:
        """All steps: releases, then what is reserved; after these, those without an answer, the latest one first."""
        steps: list[tuple[Owner, Reservation | None]] = [*plan.release, *((owner, None) for owner in plan.reserve)]
        return sorted(steps, key=lambda step: self._times(step[0]))

    def add(self, owner: Owner, fault: str) -> str:
        """What is said of it. Until `survived` says otherwise, the daemon has ended."""
        times = self._times(owner) + 1
        text = f"{NO_ANSWER}: {fault}: it is made after all others, and after growing pauses"
        self._found[owner.key] = _Pause(_asked(owner), text, times, _until(times, _LONGEST_AFTER_END), ended=True)
        return text

    def survived(self, key: Key) -> None:
        pause = self._found[key]
        pause.ended, pause.until = False, _until(pause.times, _LONGEST_PAUSE)

    def answered(self, key: Key) -> None:
        self._found.pop(key, None)

    def keys(self, *, ended: bool = False) -> list[Key]:
        """Those without an answer; with `ended`, those after which the daemon answered nothing."""
        return sorted(key for key, pause in self._found.items() if pause.ended or not ended)

    def _times(self, owner: Owner) -> int:
        return self._found[owner.key].times if owner.key in self._found else int(owner.last)


def _asked(owner: Owner) -> object:
    return (owner.cores, owner.settings) if isinstance(owner, Wanted) else None


def _until(times: int, longest: float) -> float:
    return asyncio.get_running_loop().time() + Backoff(_FIRST_PAUSE, longest, attempts=times - 1).limit


async def carry_out(daemon: Daemon, plan: DaemonPlan, pauses: Pauses, cores: frozenset[int] | None) -> dict[Key, str]:
    """Why the daemon does not do what is asked, by RmdWorkload. `cores` are those of its machine, None: not known.

    Raises Unanswered where the daemon answers nothing any more; `pauses` then know the last request.
    """
    faults: dict[Key, str] = {}
    unanswered = 0
    pauses.keep(plan)
    for owner, reservation in pauses.in_turn(plan):
        key = owner.key
        if key in faults:
            continue
        if pauses.waiting(key):
            faults[key] = pauses.text_of(key)
        elif reservation is None and (text := _without_cores(owner, cores)):
            faults[key] = text
        elif unanswered == _MOST_UNANSWERED:
            faults[key] = _LATER
        else:
            try:
                await _ask(daemon, owner, reservation)
                if reservation is None or not isinstance(owner, Wanted):  # what is released first says nothing of it
                    pauses.answered(key)
            except Refused as error:
                pauses.answered(key)
                faults[key] = error.text
                metrics.refused(error.text)
            except Unanswered as error:
                unanswered += 1
                faults[key] = pauses.add(owner, str(error))
                metrics.refused(faults[key])
                await daemon.reservations()
                pauses.survived(key)
    return faults


async def _ask(daemon: Daemon, owner: Owner, reservation: Reservation | None) -> None:
    if reservation is not None:
        await daemon.release(reservation)
    elif isinstance(owner, Wanted):
        await daemon.reserve(body_of(owner.uuid, owner.core_ids, owner.settings))


def _without_cores(owner: Owner, cores: frozenset[int] | None) -> str:
    """What is said of cores that the machine has not: RMD v0.3 panics where one of them is asked for."""
    missing = owner.cores - cores if cores is not None and isinstance(owner, Wanted) else ()
    if not missing:
        return ""
    return f"the machine has no core {_listed(missing)}: want some of {_listed(cores or ())}; the daemon is not asked"


def _listed(cores: Iterable[int]) -> str:
    return ",".join(ranges_of(cores))


def faults_of(plan: DaemonPlan, faults: dict[Key, str]) -> dict[Key, str]:
    """Why a daemon does not hold what it should, after all steps, by RmdWorkload."""
    texts = {owner.key: faults.get(owner.key, "the daemon has not released it") for owner, _ in plan.release}
    for owner in plan.reserve:
        texts[owner.key] = faults.get(owner.key, "the daemon holds something else than was sent")
    return texts | {owner.key: _why_blocked(reservation) for owner, reservation in plan.blocked}


def _why_blocked(reservation: Reservation) -> str:
    if not reservation.addressable:
        return f"the daemon holds it under the id {reservation.id!r}, which no request can name"
    return f"the daemon holds it with origin {reservation.origin}, which this API cannot change"
