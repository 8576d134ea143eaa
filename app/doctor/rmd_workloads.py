"""RmdWorkloads that are refused, wait or hang, and reservations on one side alone; for the check `rmd`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from app.doctor import acting, commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, listed, of_each, plain, warning
from app.doctor.rmd_daemons import PATIENCE, SELECTOR, daemons_of, settings_of
from app.doctor.rmd_records import Held, Row, read_held
from app.doctor.rmd_reservations import differing
from app.kube.store import Key
from app.rmd.controller.states import readiness, succeeded
from app.rmd.daemon.reasons import CLASSES_USED_UP, CORES_TAKEN, OTHER, reason_of
from app.rmd.model import READY, RMD_NODE_STATES, RMD_WORKLOADS, node_state_name
from app.rmd.stored import Workload, stored_workload
from app.text import moment
from app.wire import JSON, encode_json

_MOST = 100
_KIND = objects.plural(RMD_WORKLOADS)
_USED = re.compile(r"not enough CLOS on host, (\d+) used")
_OF_DAEMON: Final = 3
"""Classes of service that a daemon takes for itself: default, infrastructure, shared pool."""
_WITHOUT = "its cores run without the cache, the bandwidth or the P-state that it asks for"
_ASK_LESS = frozenset({"NoPool", "UnknownPolicy", "NoPlugin", "BandwidthUnit", "NotOnThisMachine"})
"""Refusals of what the RmdWorkload asks for: the daemon has no such thing."""


@dataclass(slots=True)
class _Judge:
    """Judges one RmdWorkload after the other, and keeps their states. `held` and `states` are by node."""

    cluster: Cluster
    namespace: str
    held: Mapping[str, Held]
    states: dict[str, dict[Key, JSON]] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)

    def judge(self, obj: JSON) -> Finding | None:
        now, one = self.cluster.now(), stored_workload(obj)
        for node, state in one.states.items():
            self.states.setdefault(node, {})[one.key] = state
        about = objects.subject(RMD_WORKLOADS.kind, obj)
        if one.deleting:
            return self._deleting(about, one, objects.overdue(obj, now) or 0.0)
        if one.read.problems:
            text = f"InvalidSpec: {plain('; '.join(one.read.problems))}"
            return error("BERTH6015", about, text, command=_edit(one))
        if objects.unseen(obj):
            if objects.unchanged(obj, now) > PATIENCE:
                self.late.append(about)
            return None
        ready = objects.condition(obj, READY)
        if ready.get("status") != "False":
            return None
        waits = (now - (moment(ready.get("lastTransitionTime")) or now)).total_seconds()
        if ready.get("reason") == "NoNodes":
            return warning("BERTH6016", about, f"NoNodes: {plain(ready.get('message'))}", command=_edit(one))
        if ready.get("reason") == "Pending" and waits > PATIENCE:
            return error(
                "BERTH6017", about, f"waits for its daemons for {waits / 60:.0f} minutes", _WITHOUT, _see(one.key)
            )
        return self._refused(about, one) if ready.get("reason") == "NotReserved" else None

    def _deleting(self, about: str, one: Workload, took: float) -> Finding | None:
        if not one.finalized or took < PATIENCE:
            return None
        text = f"is being deleted for {took / 60:.0f} minutes"
        if not one.states:
            return error(
                "BERTH6018",
                about,
                f"{text}, and no node has it any more",
                "the controller rmd does not act",
                _see(one.key),
            )
        follows = "it stays until these daemons have answered, or their nodes are deleted"
        return error(
            "BERTH6018", about, f"{text}: {plain(readiness(one, ())[2])}", follows, self._pods_of(min(one.states))
        )

    def _refused(self, about: str, one: Workload) -> Finding | None:
        """By what the first daemon says that answers; those that are silent have findings of their own."""
        said = {
            node: str(state["response"])
            for node, state in sorted(one.states.items())
            if state.get("response") and not succeeded(state)
        }
        node = next((node for node in said if node not in self.held or self.held[node].connected), None)
        if node is None:
            return None
        reason, held = reason_of(said[node]), self.held.get(node)
        others = f"; and on {len(said) - 1} more nodes" if len(said) > 1 else ""
        text = f"{reason} on node {node}: {plain(said[node])}{others}"
        command = commands.kubectl(
            "get", objects.plural(RMD_NODE_STATES), node_state_name(node), "--output=yaml", namespace=self.namespace
        )
        if reason == CORES_TAKEN and held is not None:
            return self._taken(about, one, held, text, command)
        if reason == CLASSES_USED_UP:
            return self._used_up(about, node, text, command)
        if reason in _ASK_LESS:
            return error("BERTH6019", about, text, _WITHOUT, _edit(one))
        return error("BERTH6019", about, text, _WITHOUT, _see(one.key) if reason == OTHER else command)

    def _taken(self, about: str, one: Workload, held: Held, text: str, command: str) -> Finding:
        rows = held.on(one.read.request.cores)
        old = next((row for row in rows if _may_be_of_operator(row, one.key)), None)
        if old is not None:
            text += f"; by the reservation of its name, id {old.id}, which its status does not have"
            patch = encode_json({"status": {"workloadStates": {held.node: {"id": old.id}}}}).decode()
            words = ("patch", _KIND, one.key[1], "--subresource=status", "--type=merge", "--patch", patch)
            command = commands.kubectl(*words, namespace=one.key[0])
        elif rows:
            text += f"; by {listed([str(row) for row in rows])}"
        return error("BERTH6019", about, text, _WITHOUT, command)

    def _used_up(self, about: str, node: str, text: str, command: str) -> Finding:
        """A daemon counts the groups of resctrl, an RmdNodeState its records."""
        held, counted = self.held.get(node), _USED.search(text)
        follows = f"{_WITHOUT}; none can be reserved before another is released"
        if held is not None and counted and int(counted[1]) > held.classes + _OF_DAEMON:
            text += f"; its reservations have {held.classes} of these"
            follows = (
                "resctrl has classes of the runtime, or of records that the daemon has lost: these go when it restarts"
            )
            command = self._pods_of(node, verb="delete")
        return error("BERTH6019", about, text, follows, command)

    def _pods_of(self, node: str, verb: str = "get") -> str:
        words = (verb, "pods", f"--selector={SELECTOR}", f"--field-selector=spec.nodeName={node}")
        return commands.kubectl(*words, namespace=self.namespace)


async def workloads(cluster: Cluster) -> AsyncIterator[Finding]:
    """Each RmdWorkload is reserved, and each reservation has its RmdWorkload."""
    namespace = (await settings_of(cluster)).rmd_namespace
    judge = _Judge(cluster, namespace, await _held(cluster, namespace))
    found = cluster.paged(RMD_WORKLOADS)
    async for finding in of_each(found, judge.judge, most=_MOST, noun="RmdWorkload"):
        yield finding
    if judge.late and "rmd" in await cluster.controllers():
        yield await acting.late(cluster, "controller", "BERTH6020", judge.late, PATIENCE)
    there = await daemons_of(cluster, namespace)
    for held in judge.held.values():
        if held.connected:
            async for finding in differing(cluster, held, judge.states.get(held.node, {}), there.get(held.node)):
                yield finding


async def _held(cluster: Cluster, namespace: str) -> dict[str, Held]:
    found = [read_held(one) for one in await cluster.listed(RMD_NODE_STATES, namespace=namespace)]
    return {one.node: one for one in sorted(found, key=lambda one: one.node)}


def _may_be_of_operator(row: Row, key: Key) -> bool:
    return not row.qualified and row.name == key[1] and row.id.isdigit()


def _see(key: Key) -> str:
    return commands.kubectl("describe", _KIND, key[1], namespace=key[0])


def _edit(one: Workload) -> str:
    """Opens what says what is asked for: for an RmdWorkload of the node agent the annotations of the Pod."""
    namespace, name = one.key
    if one.pod is not None:
        return commands.kubectl("edit", "pod", one.pod[0], namespace=namespace)
    return commands.edit(RMD_WORKLOADS, name, namespace=namespace)
