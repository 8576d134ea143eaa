"""RmdWorkloads that are refused, wait or hang, and reservations on one side alone; for the check `rmd`.

What daemons hold is what RmdNodeStates say.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from app.doctor import acting, commands, objects
from app.doctor.catalog import listed, plain
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, of_each, or_default, warning
from app.kube.resources import NODES
from app.kube.store import Key
from app.rmd.checks.daemons import PATIENCE, SELECTOR, daemons_of, settings_of
from app.rmd.controller.nodes import NO_NODE
from app.rmd.controller.states import readiness, succeeded
from app.rmd.cores import parse_cores
from app.rmd.daemon.wire import CLASSES_USED_UP, CORES_TAKEN, OTHER, reason_of
from app.rmd.model import (
    CONNECTED,
    DAEMON_NAMESPACE,
    READY,
    RMD_NODE_STATES,
    RMD_WORKLOADS,
    SERVER_NAME,
    TLS_PORT,
    node_state_name,
)
from app.rmd.stored import DaemonPod, Workload, stored_node_state, stored_workload
from app.wire import JSON, encode_json

_MOST = 100
_USED = re.compile(r"not enough CLOS on host, (\d+) used")
_OF_DAEMON: Final = 3
"""Classes of service that a daemon takes for itself: default, infrastructure, shared pool."""
_ASK_LESS = frozenset({"NoPool", "UnknownPolicy", "NoPlugin", "BandwidthUnit", "NotOnThisMachine"})
"""Refusals of what the RmdWorkload asks for: the daemon has no such thing."""
_States = Mapping[Key, JSON]
"""The states of RmdWorkloads on one node."""


@dataclass(slots=True)
class Judging:
    """Judges one RmdWorkload after the other, and keeps their states. `held` and `states` are by node.

    `namespace` is that of the daemons.
    """

    now: datetime
    namespace: str
    held: Mapping[str, Held]
    states: dict[str, dict[Key, JSON]] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)

    def judge(self, obj: JSON) -> Finding | None:
        now, workload, it = self.now, stored_workload(obj), objects.Object(RMD_WORKLOADS, obj)
        for node, state in workload.states.items():
            self.states.setdefault(node, {})[workload.key] = state
        if workload.deleting:
            return self._deleting(it, workload, objects.overdue(obj, now) or 0.0)
        if workload.read.problems:
            return error("BERTH6015", it, problems="; ".join(workload.read.problems), command=_edit(workload))
        if objects.unseen(obj):
            self.late += [it.subject] if objects.unchanged(obj, now) > PATIENCE else []
            return None
        ready = objects.condition(obj, READY)
        reason, waits = ready.get("reason") if ready.get("status") == "False" else "", objects.lasts(ready, now)
        if reason == "NoNodes":
            return warning("BERTH6016", it, said=ready.get("message"), command=_edit(workload))
        if reason == "Pending" and waits > PATIENCE:
            return error("BERTH6017", it, waits=waits)
        return self._refused(it, workload) if reason == "NotReserved" else None

    def _deleting(self, it: objects.Object, workload: Workload, took: float) -> Finding | None:
        if not workload.finalized or took < PATIENCE:
            return None
        if not workload.states:
            return error("BERTH6018", it, case="released", took=took, said="")
        return error(
            "BERTH6018", it, took=took, said=readiness(workload, ())[2], command=self._pods_of(min(workload.states))
        )

    def _refused(self, it: objects.Object, workload: Workload) -> Finding | None:
        """By what the first daemon says that answers; those that are silent have findings of their own."""
        responses = {
            node: str(state["response"])
            for node, state in sorted(workload.states.items())
            if state.get("response") and not succeeded(state)
        }
        node = next((node for node in responses if node not in self.held or self.held[node].connected), None)
        if node is None:
            return None
        reason, held = reason_of(responses[node]), self.held.get(node)
        others = f"; and on {len(responses) - 1} more nodes" if len(responses) > 1 else ""
        text = f"{'not reserved' if reason == OTHER else reason} on node {node}: {plain(responses[node])}{others}"
        state = objects.named(RMD_NODE_STATES, node_state_name(node), self.namespace)
        fix = commands.kubectl("get", state.plural, state.name, "--output=yaml", namespace=self.namespace)
        if reason == CORES_TAKEN and held is not None:
            return self._taken(it, workload, held, text, fix)
        if reason == CLASSES_USED_UP:
            return self._used_up(it, node, text, fix)
        if reason in _ASK_LESS or NO_NODE in responses[node]:
            fix = _edit(workload)
        elif reason == OTHER:
            fix = commands.kubectl("describe", it.plural, it.name, namespace=it.namespace)
        return error("BERTH6019", it, text, command=fix)

    def _taken(self, it: objects.Object, workload: Workload, held: Held, text: str, fix: str) -> Finding:
        rows = held.on(workload.read.request.cores)
        old = next((row for row in rows if _may_be_of_operator(row, workload.key)), None)
        if old is not None:
            text += f"; by the reservation of its name, id {old.id}, which its status does not have"
            patch = encode_json({"status": {"workloadStates": {held.node: {"id": old.id}}}}).decode()
            words = ("patch", it.plural, it.name, "--subresource=status", "--type=merge", "--patch", patch)
            fix = commands.kubectl(*words, namespace=it.namespace)
        elif rows:
            text, fix = f"{text}; by {listed([str(row) for row in rows])}", _edit(workload)
        return error("BERTH6019", it, text, command=fix)

    def _used_up(self, it: objects.Object, node: str, text: str, fix: str) -> Finding:
        """A daemon counts the groups of resctrl, an RmdNodeState its records."""
        held, counted = self.held.get(node), _USED.search(text)
        if held is not None and counted and int(counted[1]) > held.classes + _OF_DAEMON:
            text += f"; its reservations have {held.classes} of these"
            return error("BERTH6019", it, text, case="lost", command=self._pods_of(node, verb="delete"))
        return error("BERTH6019", it, text, case="full", command=fix)

    def _pods_of(self, node: str, verb: str = "get") -> str:
        words = (verb, "pods", f"--selector={SELECTOR}", f"--field-selector=spec.nodeName={node}")
        return commands.kubectl(*words, namespace=self.namespace)


async def workloads(cluster: Cluster) -> AsyncIterator[Finding]:
    """Each RmdWorkload is reserved, and each reservation has its RmdWorkload."""
    namespace = (await settings_of(cluster)).rmd_namespace
    judge = Judging(cluster.now(), namespace, held_by_node(await cluster.listed(RMD_NODE_STATES, namespace=namespace)))
    async for finding in of_each(cluster.paged(RMD_WORKLOADS), judge.judge, most=_MOST, noun="RmdWorkload"):
        yield finding
    if judge.late and "rmd" in await cluster.controllers():
        yield await acting.late(cluster, "controller", "BERTH6020", judge.late)
    pods = await daemons_of(cluster, namespace)
    for held in judge.held.values():
        if held.connected:
            async for finding in _differing(cluster, held, judge.states.get(held.node, {}), pods.get(held.node)):
                yield finding


def _may_be_of_operator(row: _Row, key: Key) -> bool:
    return not row.qualified and row.name == key[1] and row.id.isdigit()


def _edit(workload: Workload) -> str:
    """Opens what says what is asked for: for an RmdWorkload of the node agent the annotations of the Pod."""
    namespace, name = workload.key
    if workload.pod is not None:
        return commands.kubectl("edit", "pod", workload.pod[0], namespace=namespace)
    return commands.edit(RMD_WORKLOADS, name, namespace=namespace)


@dataclass(frozen=True, slots=True)
class _Row:
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
    rows: tuple[_Row, ...]

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(row.id for row in self.rows)

    @property
    def classes(self) -> int:
        """The classes of service of its reservations."""
        return len({row.cos for row in self.rows if row.cos})

    def on(self, cores: frozenset[int]) -> list[_Row]:
        """The reservations that have one of these cores."""
        return [row for row in self.rows if row.cores & cores]


def held_by_node(states: Iterable[JSON]) -> dict[str, Held]:
    """What RmdNodeStates say, by node."""
    holdings = map(_read_held, states)
    return {held.node: held for held in sorted(holdings, key=lambda held: held.node)}


def _read_held(obj: JSON) -> Held:
    """What an RmdNodeState says."""
    state = stored_node_state(obj)
    rows = tuple(
        _Row(
            shown,
            str(record.get("ID") or ""),
            _cores(str(record.get("Core IDs") or "")),
            str(record.get("Cos Name") or ""),
        )
        for shown, record in sorted((state.status.get("workloads") or {}).items())
    )
    return Held(state.key, state.node, objects.condition(obj, CONNECTED).get("status") == "True", rows)


def _unknown(held: Held, states: _States) -> Iterator[_Row]:
    """Reservations of no RmdWorkload."""
    names: dict[str, list[Key]] = {}
    for key in states:
        names.setdefault(key[1], []).append(key)
    for row in held.rows:
        owners = {row.key} & states.keys() if row.qualified else set(names.get(row.name, ()))
        if not any(_is_of(row, key, held, states[key]) for key in owners):
            yield row


def _is_of(row: _Row, key: Key, held: Held, state: JSON) -> bool:
    """Whether an RmdWorkload of that name accounts for it: by the id, or because its next state will have the id.

    Where it is refused for its cores, the finding about it names the reservation.
    """
    if state.get("id"):
        return bool(state["id"] == row.id or (key == row.key and state["id"] not in held.ids))
    return key == row.key or reason_of(str(state.get("response") or "")) == CORES_TAKEN


def _lost(held: Held, states: _States) -> Iterator[tuple[Key, str]]:
    """RmdWorkloads, and the ids of reservations that these have and the daemon has not."""
    # A daemon that was restarted gives the same ids to others.
    reservations = {(row.name if not row.qualified else row.key, row.id) for row in held.rows}
    for key, state in states.items():
        mine = {(key[1], state.get("id")), (key, state.get("id"))}
        if state.get("id") and succeeded(state) and not mine & reservations:
            yield key, str(state["id"])


def _cores(text: str) -> frozenset[int]:
    try:
        return parse_cores(text)
    except ValueError:
        return frozenset()


async def _differing(cluster: Cluster, held: Held, states: _States, daemon: DaemonPod | None) -> AsyncIterator[Finding]:
    """What the daemon of a node holds without an RmdWorkload, and what it should hold by a status and does not.

    What may have changed while all was read is read again.
    """
    if not any(_unknown(held, states)) and not any(_lost(held, states)):
        return
    again = await cluster.get(RMD_NODE_STATES, held.key[1], namespace=held.key[0])
    held = _read_held(again) if again is not None else held
    it = objects.named(NODES, held.node)
    foreign = [
        row for row in _unknown(held, states) if row.key in states or await _state(cluster, row.key, held.node) is None
    ]
    if foreign:
        yield warning("BERTH6013", it, rows=foreign, command=_release(foreign, daemon) if daemon else "")
    gone = [
        (key, number)
        for key, number in _lost(held, states)
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


def _release(rows: Sequence[_Row], daemon: DaemonPod) -> str:
    """Releases reservations at their daemon; "" where their ids can be in no request."""
    words = ["curl", "--fail", "--request", "DELETE", "--header", "Content-Type: application/json"]
    base = daemon.url
    if base.startswith("https:"):
        base = f"https://{SERVER_NAME}:{TLS_PORT}"
        words += ["--cert", "tls.crt", "--key", "tls.key", "--cacert", "ca.crt"]
        words += ["--connect-to", f"{SERVER_NAME}:{TLS_PORT}:{daemon.url.removeprefix('https://')}"]
    places = [f"{base}/v1/workloads/{row.id}" for row in rows if row.id.isdigit()]
    return shlex.join([*words, *places]) if places else ""
