"""Whose the network data of a device is: which of what is planned is written, and what is left to others. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.claims.model import FIELD_MANAGER, DeviceKey
from app.claims.stored.claims import Entry

Conflict = Literal["defer", "force"]
State = Literal["published", "deferred", "self-publishing", "unlisted"]
"""published: the data are ours to write; deferred: another manager owns them; self-publishing: its driver writes them
itself; unlisted: its driver is not on the list.
"""
STATES: tuple[State, ...] = ("published", "deferred", "self-publishing", "unlisted")


@dataclass(frozen=True, slots=True)
class Rules:
    """`drivers` are the only ones that data are written for; empty: all.

    `self_publishing` are drivers that write for themselves. `repair_after` are the seconds after which that counts as
    failed where nothing is written; 0: never.
    """

    drivers: frozenset[str] = frozenset()
    conflict: Conflict = "defer"
    self_publishing: frozenset[str] = frozenset({"dra.net"})
    repair_after: float = 0.0

    def lists(self, driver: str) -> bool:
        """Whether data are written for the driver.

        What was written before it left the list stays: the right to change it may have gone at the same time.
        """
        return not self.drivers or driver in self.drivers


def others_of(entry: Entry | None) -> frozenset[str]:
    """The other field managers that own network data of the entry.

    A manager that owns our condition as well has put back a list that it had read before: the data in it are ours. No
    driver writes this condition of its own accord.
    """
    return frozenset() if entry is None else entry.managers - entry.tellers - {FIELD_MANAGER}


def state_of(device: DeviceKey, entry: Entry | None, rules: Rules, *, overdue: bool) -> State:
    """`overdue`: its driver has had `repair_after` seconds to publish for itself. `entry` is None if there is none."""
    if not rules.lists(device.driver):
        return "unlisted"
    taken = others_of(entry)
    if device.driver in rules.self_publishing:
        return "self-publishing" if taken or not _repairs(entry, rules, overdue=overdue) else "published"
    return "deferred" if taken and rules.conflict == "defer" else "published"


def _repairs(entry: Entry | None, rules: Rules, *, overdue: bool) -> bool:
    """Also where the data are ours: they were repaired before, and a new sandbox of the Pod may have changed them."""
    if not rules.repair_after:
        return False
    return overdue or (entry is not None and FIELD_MANAGER in entry.managers)
