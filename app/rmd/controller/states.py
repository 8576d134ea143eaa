"""What the status of an RmdWorkload says: of its reservation on each node, and of all of them. Pure.

The fields and the beginnings of responses, `Success` and `Fail`, are those of the operator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from app.kube.conditions import Truth, cut_as_stored
from app.numbers import whole_or
from app.rmd.daemon.wire import NO_ANSWER, Reservation
from app.rmd.stored import Workload
from app.text import MESSAGE, one_line
from app.wire import JSON

PENDING: JSON = {"response": "", "status": "None"}
"""Before the daemon is asked. So the status names each node that may have a reservation."""
CREATED, PRESENT = "Success: 201", "Success: 200"
_WHOLE = 64
"""Nodes of one RmdWorkload of which a state says everything; beyond, it says what the next pass needs."""
_SHORT = 64
"""Bytes of the response in a short state."""
_SHOWN = 3
"""Nodes that a message names."""


def state_of(reservation: Reservation, response: str) -> JSON:
    """The state where a daemon holds a reservation."""
    settings = reservation.settings
    rdt: JSON = {}
    if settings.cache is not None:
        rdt["cache"] = {"max": settings.cache[0], "min": settings.cache[1]}
    mba = {"percentage": settings.percentage, "mbps": settings.mbps}
    if settings.bandwidth:
        rdt["mba"] = {name: value for name, value in mba.items() if value is not None}
    pstate = {"ratio": "" if settings.ratio is None else f"{settings.ratio:f}", "monitoring": settings.monitoring}
    state = {
        "response": response,
        "id": reservation.id,
        "cosName": reservation.cos,
        "status": reservation.status,
        "coreIds": list(reservation.core_ids),
        "policy": settings.policy,
        "rdt": rdt,
        "plugins": {"pstate": {name: value for name, value in pstate.items() if value}} if settings.plugins else {},
    }
    return {name: value for name, value in state.items() if value}


def present(before: JSON) -> str:
    """The response of a reservation that needs nothing: how it came to be is kept."""
    response = str(before.get("response") or "")
    return response if response.startswith("Success") else PRESENT


def failed(text: str, before: JSON | None = None) -> JSON:
    """The state after a fault. What is known of a reservation `before` is kept: it may still be in force."""
    return {**(before or {"status": "Failed"}), "response": one_line(f"Fail: {text}", MESSAGE)}


def fitting(state: JSON, states: Mapping[str, JSON]) -> JSON:
    """The state of a node as it stands beside the others of an RmdWorkload, so that those of 5,000 nodes fit into it.

    Then it has the response, the id and the status alone; the RmdNodeState of the node has all.
    """
    if len(states) <= _WHOLE:
        return state
    kept: JSON = {name: state[name] for name in ("id", "status", "observedGeneration") if name in state}
    return {"response": cut_as_stored(str(state.get("response") or ""), _SHORT), **kept}


def succeeded(state: JSON) -> bool:
    return str(state.get("response") or "").startswith("Success")


def unanswered(state: JSON, generation: int) -> bool:
    """Whether the daemon gave no answer to the request for this spec."""
    return is_current(state, generation) and str(state.get("response") or "").startswith(f"Fail: {NO_ANSWER}")


def is_current(state: JSON, generation: int) -> bool:
    """Whether it is about this spec; the operator does not say which one it is about."""
    return whole_or(state.get("observedGeneration"), 0) == generation


def readiness(workload: Workload, targets: Collection[str]) -> tuple[Truth, str, str]:
    """The condition Ready: whether each node has the reservation; a reason and a message."""
    if workload.deleting:
        left = sorted(workload.states)
        return "False", "Releasing", f"{len(left)} nodes have to release it: {_listed(left, workload.states)}"
    if workload.read.problems:
        return "False", "InvalidSpec", one_line("; ".join(workload.read.problems), MESSAGE)
    if not targets:
        return "False", "NoNodes", "no node is selected: want spec.nodes or a spec.nodeSelector that matches nodes"
    states = {node: state for node, state in workload.states.items() if is_current(state, workload.generation)}
    done = [node for node in targets if succeeded(states.get(node) or PENDING)]
    if len(done) == len(targets):
        return "True", "Reserved", f"reserved on {len(done)} of {len(targets)} nodes"
    rest = sorted(set(targets) - set(done))
    refused = [node for node in rest if (states.get(node) or PENDING).get("response")]
    reason = "NotReserved" if refused else "Pending"
    message = f"reserved on {len(done)} of {len(targets)} nodes; {_listed(refused or rest, states)}"
    return "False", reason, one_line(message, MESSAGE)


def _listed(nodes: Collection[str], states: Mapping[str, JSON]) -> str:
    shown = [f"{node}: {(states.get(node) or PENDING).get('response') or 'not asked yet'}" for node in nodes]
    more = f"; and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return "; ".join(shown[:_SHOWN]) + more
