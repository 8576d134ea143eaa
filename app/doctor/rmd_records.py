"""What daemons hold, as RmdNodeStates say it, beside what RmdWorkloads say; for the check `rmd`."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.doctor import objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, or_default, warning
from app.kube.resources import NODES
from app.kube.store import Key
from app.rmd.controller.states import succeeded
from app.rmd.cores import parse_cores
from app.rmd.daemon.reasons import CORES_TAKEN, reason_of
from app.rmd.model import CONNECTED, DAEMON_NAMESPACE, RMD_NODE_STATES, RMD_WORKLOADS, SERVER_NAME, TLS_PORT
from app.rmd.stored import DaemonPod, stored_node_state, stored_workload
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


async def differing(cluster: Cluster, held: Held, states: States, daemon: DaemonPod | None) -> AsyncIterator[Finding]:
    """What the daemon of a node holds without an RmdWorkload, and what it should hold by a status and does not.

    What may have changed while all was read is read again.
    """
    if not any(unknown(held, states)) and not any(lost(held, states)):
        return
    again = await cluster.get(RMD_NODE_STATES, held.key[1], namespace=held.key[0])
    held = read_held(again) if again is not None else held
    it = objects.named(NODES, held.node)
    foreign = [
        row for row in unknown(held, states) if row.key in states or await _state(cluster, row.key, held.node) is None
    ]
    if foreign:
        yield warning("BERTH6013", it, rows=foreign, command=_release(foreign, daemon) if daemon else "")
    gone = [
        (key, number)
        for key, number in lost(held, states)
        if ((await _state(cluster, key, held.node)) or {}).get("id") == number
    ]
    if gone:
        names = [f"{namespace}/{name} (id {number})" for (namespace, name), number in gone]
        (namespace, name), _ = gone[0]
        yield error("BERTH6014", it, names=names, first=objects.named(RMD_WORKLOADS, name, namespace))


async def _state(cluster: Cluster, key: Key, node: str) -> JSON | None:
    """The state of an RmdWorkload on a node as it is now, None where there is none."""
    now = await or_default(cluster.get(RMD_WORKLOADS, key[1], namespace=key[0]), None) if all(key) else None
    return stored_workload(now).states.get(node) if now is not None else None


def _release(rows: Sequence[Row], daemon: DaemonPod) -> str:
    """Releases reservations at their daemon; "" where their ids can be in no request."""
    words = ["curl", "--fail", "--request", "DELETE", "--header", "Content-Type: application/json"]
    base = daemon.url
    if base.startswith("https:"):
        base = f"https://{SERVER_NAME}:{TLS_PORT}"
        words += ["--cert", "tls.crt", "--key", "tls.key", "--cacert", "ca.crt"]
        words += ["--connect-to", f"{SERVER_NAME}:{TLS_PORT}:{daemon.url.removeprefix('https://')}"]
    places = [f"{base}/v1/workloads/{row.id}" for row in rows if row.id.isdigit()]
    return shlex.join([*words, *places]) if places else ""
