"""What daemons hold, as RmdNodeStates say it, beside what RmdWorkloads say; for the check `rmd`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.doctor import objects
from app.doctor.texts import plain
from app.kube.store import Key
from app.rmd.controller.states import succeeded
from app.rmd.cores import parse_cores
from app.rmd.daemon.reasons import CORES_TAKEN, reason_of
from app.rmd.model import CONNECTED, DAEMON_NAMESPACE
from app.rmd.stored import stored_node_state
from app.wire import JSON

States = Mapping[Key, JSON]
"""The states of RmdWorkloads on one node."""


@dataclass(frozen=True, slots=True)
class Row:
    """A reservation in an RmdNodeState. `shown` is the key of its entry: [NAMESPACE/]NAME [(id ID)], or id ID."""

    shown: str
    id: str
    cores: frozenset[int]
    cos: str

    def __str__(self) -> str:
        return plain(self.shown if f"id {self.id}" in self.shown else f"{self.shown} (id {self.id})")

    @property
    def name(self) -> str:
        return self.shown.partition(" (id ")[0]

    @property
    def qualified(self) -> bool:
        """Whether it says its namespace. The operator's reservations, and those of its namespace, do not."""
        return "/" in self.name

    @property
    def key(self) -> Key:
        namespace, slash, name = self.name.partition("/")
        return (namespace, name) if slash else (DAEMON_NAMESPACE, self.name)


@dataclass(frozen=True, slots=True)
class Held:
    """What the daemon of a node holds. Without `connected` it is what it said last."""

    key: Key
    node: str
    connected: bool
    rows: tuple[Row, ...]

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(row.id for row in self.rows)

    @property
    def classes(self) -> int:
        """The classes of service of its reservations."""
        return len({row.cos for row in self.rows if row.cos})

    def on(self, cores: frozenset[int]) -> list[Row]:
        """The reservations that have one of these cores."""
        return [row for row in self.rows if row.cores & cores]


def read_held(obj: JSON) -> Held:
    """What an RmdNodeState says."""
    state = stored_node_state(obj)
    rows = tuple(
        Row(shown, str(one.get("ID") or ""), _cores(str(one.get("Core IDs") or "")), str(one.get("Cos Name") or ""))
        for shown, one in sorted((state.status.get("workloads") or {}).items())
    )
    return Held(state.key, state.node, objects.condition(obj, CONNECTED).get("status") == "True", rows)


def unknown(held: Held, states: States) -> Iterator[Row]:
    """Reservations of no RmdWorkload."""
    names: dict[str, list[Key]] = {}
    for key in states:
        names.setdefault(key[1], []).append(key)
    for row in held.rows:
        owners = {row.key} & states.keys() if row.qualified else set(names.get(row.name, ()))
        if not any(_is_of(row, key, held, states[key]) for key in owners):
            yield row


def _is_of(row: Row, key: Key, held: Held, state: JSON) -> bool:
    """Whether an RmdWorkload of that name accounts for it: by the id, or because its next state will have the id.

    Where it is refused for its cores, the finding about it names the reservation.
    """
    if state.get("id"):
        return bool(state["id"] == row.id or (key == row.key and state["id"] not in held.ids))
    return key == row.key or reason_of(str(state.get("response") or "")) == CORES_TAKEN


def lost(held: Held, states: States) -> Iterator[tuple[Key, str]]:
    """RmdWorkloads, and the ids of reservations that these have and the daemon has not."""
    # A daemon that was restarted gives the same ids to others.
    there = {(row.name if not row.qualified else row.key, row.id) for row in held.rows}
    for key, state in states.items():
        mine = {(key[1], state.get("id")), (key, state.get("id"))}
        if state.get("id") and succeeded(state) and not mine & there:
            yield key, str(state["id"])


def _cores(text: str) -> frozenset[int]:
    try:
        return parse_cores(text)
    except ValueError:
        return frozenset()
