"""What has to be done on one daemon: what it should hold, compared with what it holds. Pure.

A daemon's PATCH is never used. With memory bandwidth it may apply the value of another request. With other cores it
always fails. Where it fails midway, the daemon goes on to report the old reservation, and a class of service that
another one may have got. Release and reserve have the same effect, and each of the two says what became of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from app.kube.store import Key
from app.rmd.cores import numbers_of, ranges_of
from app.rmd.daemon.wire import REST, Reservation, holds
from app.rmd.model import uuid_of
from app.rmd.requests import Settings


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
class Plan:
    """Steps, in this order: release, then reserve the oldest first. `held` needs none, `foreign` may not be touched.

    `blocked` are wanted ones whose uuid is held by a reservation that this API cannot release.
    """

    release: tuple[tuple[Owner, Reservation], ...]
    reserve: tuple[Wanted, ...]
    held: tuple[tuple[Wanted, Reservation], ...]
    blocked: tuple[tuple[Owner, Reservation], ...]
    foreign: tuple[Reservation, ...]


def plan_node(wanted: Sequence[Wanted], leaving: Sequence[Leaving], found: Sequence[Reservation]) -> Plan:
    """Reservations of no RmdWorkload are left alone. The class of service of each has to be its own."""
    shared = _shared_classes(found)
    release: list[tuple[Owner, Reservation]] = []
    reserve: list[Wanted] = []
    held: list[tuple[Wanted, Reservation]] = []
    blocked: list[tuple[Owner, Reservation]] = []
    owners: tuple[Owner, ...] = (*wanted, *leaving)
    ours: set[int] = set()
    for owner in owners:
        mine = [index for index, candidate in enumerate(found) if _is_of(candidate, owner)]
        ours.update(mine)
        stuck = next((found[index] for index in mine if not _may_go(found[index])), None)
        if stuck is not None:
            blocked.append((owner, stuck))
            continue
        kept = None
        if isinstance(owner, Wanted):
            kept = next((found[index] for index in mine if _as_wanted(found[index], owner, shared)), None)
            if kept is None:
                reserve.append(owner)
            else:
                held.append((owner, kept))
        release.extend((owner, found[index]) for index in mine if found[index] is not kept)
    reserve.sort(key=lambda one: (one.created, one.key))
    foreign = tuple(reservation for index, reservation in enumerate(found) if index not in ours)
    return Plan(tuple(release), tuple(reserve), tuple(held), tuple(blocked), foreign)


def _is_of(reservation: Reservation, one: Owner) -> bool:
    """By our uuid; or by that of the operator, a name alone, where the status has the same id."""
    if reservation.uuid == one.uuid:
        return True
    return bool(one.known) and (reservation.uuid, reservation.id) == (one.key[1], one.known)


def _may_go(reservation: Reservation) -> bool:
    return reservation.addressable and reservation.origin == REST


def _as_wanted(reservation: Reservation, one: Wanted, shared: Collection[str]) -> bool:
    return reservation.cos not in shared and holds(reservation, one.cores, one.settings)


def _shared_classes(found: Iterable[Reservation]) -> frozenset[str]:
    """Classes of service that a reservation with ways or bandwidth of its own shares: the PATCH of a client has failed.

    Reservations of the shared pool have one class together.
    """
    counted = Counter(reservation.cos for reservation in found if reservation.cos)
    own = {
        reservation.cos
        for reservation in found
        if reservation.settings.cache not in (None, (0, 0)) or reservation.settings.bandwidth
    }
    return frozenset(name for name, times in counted.items() if times > 1 and name in own)
