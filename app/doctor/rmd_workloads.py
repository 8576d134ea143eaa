"""RmdWorkloads that are refused, wait or hang, and reservations on one side alone; for the check `rmd`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from app.doctor import acting, commands, objects
from app.doctor.catalog import listed, plain
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, of_each, warning
from app.doctor.rmd_daemons import PATIENCE, SELECTOR, daemons_of, settings_of
from app.doctor.rmd_records import Held, Row, differing, read_held
from app.kube.store import Key
from app.rmd.controller.daemons import NO_NODE
from app.rmd.controller.states import readiness, succeeded
from app.rmd.daemon.reasons import CLASSES_USED_UP, CORES_TAKEN, OTHER, reason_of
from app.rmd.model import READY, RMD_NODE_STATES, RMD_WORKLOADS, node_state_name
from app.rmd.stored import Workload, stored_workload
from app.wire import JSON, encode_json

_MOST = 100
_USED = re.compile(r"not enough CLOS on host, (\d+) used")
_OF_DAEMON: Final = 3
"""Classes of service that a daemon takes for itself: default, infrastructure, shared pool."""
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
        now, one, it = self.cluster.now(), stored_workload(obj), objects.Object(RMD_WORKLOADS, obj)
        for node, state in one.states.items():
            self.states.setdefault(node, {})[one.key] = state
        if one.deleting:
            return self._deleting(it, one, objects.overdue(obj, now) or 0.0)
        if one.read.problems:
            return error("BERTH6015", it, problems="; ".join(one.read.problems), command=_edit(one))
        if objects.unseen(obj):
            self.late += [it.subject] if objects.unchanged(obj, now) > PATIENCE else []
            return None
        ready = objects.condition(obj, READY)
        reason, waits = ready.get("reason") if ready.get("status") == "False" else "", objects.lasts(ready, now)
        if reason == "NoNodes":
            return warning("BERTH6016", it, said=ready.get("message"), command=_edit(one))
        if reason == "Pending" and waits > PATIENCE:
            return error("BERTH6017", it, waits=waits)
        return self._refused(it, one) if reason == "NotReserved" else None

    def _deleting(self, it: objects.Object, one: Workload, took: float) -> Finding | None:
        if not one.finalized or took < PATIENCE:
            return None
        if not one.states:
            return error("BERTH6018", it, case="released", took=took, said="")
        return error("BERTH6018", it, took=took, said=readiness(one, ())[2], command=self._pods_of(min(one.states)))

    def _refused(self, it: objects.Object, one: Workload) -> Finding | None:
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
        text = f"{'not reserved' if reason == OTHER else reason} on node {node}: {plain(said[node])}{others}"
        state = objects.named(RMD_NODE_STATES, node_state_name(node), self.namespace)
        fix = commands.kubectl("get", state.plural, state.name, "--output=yaml", namespace=self.namespace)
        if reason == CORES_TAKEN and held is not None:
            return self._taken(it, one, held, text, fix)
        if reason == CLASSES_USED_UP:
            return self._used_up(it, node, text, fix)
        if reason in _ASK_LESS or NO_NODE in said[node]:
            fix = _edit(one)
        elif reason == OTHER:
            fix = commands.kubectl("describe", it.plural, it.name, namespace=it.namespace)
        return error("BERTH6019", it, text, command=fix)

    def _taken(self, it: objects.Object, one: Workload, held: Held, text: str, fix: str) -> Finding:
        rows = held.on(one.read.request.cores)
        old = next((row for row in rows if _may_be_of_operator(row, one.key)), None)
        if old is not None:
            text += f"; by the reservation of its name, id {old.id}, which its status does not have"
            patch = encode_json({"status": {"workloadStates": {held.node: {"id": old.id}}}}).decode()
            words = ("patch", it.plural, it.name, "--subresource=status", "--type=merge", "--patch", patch)
            fix = commands.kubectl(*words, namespace=it.namespace)
        elif rows:
            text += f"; by {listed([str(row) for row in rows])}"
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
    found = [read_held(one) for one in await cluster.listed(RMD_NODE_STATES, namespace=namespace)]
    judge = _Judge(cluster, namespace, {one.node: one for one in sorted(found, key=lambda one: one.node)})
    async for finding in of_each(cluster.paged(RMD_WORKLOADS), judge.judge, most=_MOST, noun="RmdWorkload"):
        yield finding
    if judge.late and "rmd" in await cluster.controllers():
        yield await acting.late(cluster, "controller", "BERTH6020", judge.late)
    there = await daemons_of(cluster, namespace)
    for held in judge.held.values():
        if held.connected:
            async for finding in differing(cluster, held, judge.states.get(held.node, {}), there.get(held.node)):
                yield finding


def _may_be_of_operator(row: Row, key: Key) -> bool:
    return not row.qualified and row.name == key[1] and row.id.isdigit()


def _edit(one: Workload) -> str:
    """Opens what says what is asked for: for an RmdWorkload of the node agent the annotations of the Pod."""
    namespace, name = one.key
    if one.pod is not None:
        return commands.kubectl("edit", "pod", one.pod[0], namespace=namespace)
    return commands.edit(RMD_WORKLOADS, name, namespace=namespace)
