"""Why an RmdWorkload is not reserved, and why a daemon of RMD does not answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from app.doctor import commands, objects
from app.doctor.catalog import listed as shown
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.objects import Object
from app.kube.resources import NODES
from app.rmd.checks.daemons import settings_of
from app.rmd.checks.workloads import Held, Judging, held_by_node
from app.rmd.controller.states import succeeded
from app.rmd.model import CONNECTED, READY, RMD_NODE_STATES, RMD_WORKLOADS
from app.rmd.stored import Workload, stored_workload
from app.text import moment
from app.why.model import (
    Asking,
    Unread,
    Verdict,
    absence,
    broken,
    fine,
    get,
    judged,
    listed,
    of_findings,
    once,
    or_else,
    read,
    stuck,
    waits,
)
from app.why.standing import describe


async def _namespace(cluster: Cluster) -> str:
    return (await settings_of(cluster)).rmd_namespace


def _holdings() -> Asking[dict[str, Held]]:
    """What daemons hold, by node; nothing where it may not be read."""
    namespace = yield from read(_namespace)
    states = yield from listed(RMD_NODE_STATES, namespace)
    return held_by_node(state.json for state in states)


def judge_workload(it: Object, now: datetime) -> Asking[Verdict | None]:
    """Whether each node has the reservation, and why not: as its daemon says, or because there is none."""
    read_held: dict[str, Held] | None = yield from or_else(once("rmd holdings", _holdings), None)
    held = read_held or {}
    namespace = yield from or_else(read(_namespace), "default")
    ready, workload = objects.condition(it.json, READY), stored_workload(it.json)
    since, done = moment(ready.get("lastTransitionTime")), _done(workload)
    nodes = yield from _nodes(it, workload, held)
    states = len(workload.states)
    text = f"not reserved on {states - done} of {states} nodes" if states else "not reserved"
    if workload.deleting:
        text = "is being deleted"
    finding = Judging(now, namespace, held).judge(it.json)
    if finding is not None and (verdict := of_findings(text, [finding])) is not None:
        return replace(verdict, since=since, because=nodes or verdict.because, more=verdict.more or describe(it))
    if not it.json["metadata"].get("uid"):
        nodes = (*nodes, *((yield from _without_daemon(it, held)) if read_held is not None else ()))
        fix = commands.edit(it.resource, it.name, namespace=it.namespace)
        return stuck("would not be reserved", because=nodes, fix=fix) if nodes else fine("would be reserved")
    if ready.get("status") == "True":
        return fine(plain(ready.get("message")), since=since)
    cause = plain(ready.get("message") or "its controller has not looked at it yet")
    return waits(text, since=since, because=(*nodes, cause), more=describe(it))


def _done(workload: Workload) -> int:
    return sum(succeeded(state) for state in workload.states.values())


def _nodes(it: Object, workload: Workload, held: dict[str, Held]) -> Asking[tuple[str, ...]]:
    """What is wrong with the nodes that it names: there is no such node, or its daemon is silent."""
    causes = list[str]()
    for name in objects.spec(it.json).get("nodes") or ():
        if succeeded(workload.states.get(name) or {}):
            continue
        try:
            node = yield from get(NODES, name)
        except Unread:
            continue
        if node is None:
            clause, _ = yield from absence(NODES, name)
            on = f"; daemons run on {shown(sorted(held))}" if held else ""
            causes.append(clause + on)
        elif name in held and not held[name].connected:
            verdict = yield from judged(RMD_NODE_STATES, held[name].key[1], held[name].key[0])
            causes += verdict.because if verdict is not None else ()
    return tuple(causes)


def _without_daemon(it: Object, held: dict[str, Held]) -> Asking[tuple[str, ...]]:
    """Nodes that are there, and that no daemon serves. Of an object that exists, its status says it."""
    causes, on = list[str](), f"daemons run on {shown(sorted(held))}" if held else "no node has one"
    for name in objects.spec(it.json).get("nodes") or ():
        if name not in held and (yield from or_else(get(NODES, name), None)) is not None:
            causes.append(f"Node {name} has no RMD daemon; {on}")
    return tuple(causes)


def judge_node_state(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Whether the daemon of a node answers."""
    node, connected = str(objects.spec(it.json).get("node") or ""), objects.condition(it.json, CONNECTED)
    since = moment(connected.get("lastTransitionTime"))
    if connected.get("status") == "True":
        return fine(f"the daemon on node {node} answers", since=since)
    cause = plain(connected.get("message") or "the controller has not asked the daemon yet")
    existing = yield from or_else(get(NODES, node), it)
    if existing is None:
        cause = f"there is no node {node}"
    return broken(f"the daemon on node {node} does not answer", since=since, because=(cause,), more=describe(it))


JUDGES = {RMD_WORKLOADS: judge_workload, RMD_NODE_STATES: judge_node_state}
