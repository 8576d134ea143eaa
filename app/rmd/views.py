"""View `rmd`: nodes with their cache ways and reservations, and RmdWorkloads with their state on each node."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import partial

from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.objects import Object
from app.errors import ApiError
from app.kube.names import check_dns_subdomain
from app.kube.quantity import QuantityError
from app.kube.resources import NODES
from app.numbers import whole_or
from app.rmd.model import L3_CACHE_WAYS, READY, RMD_NODE_STATES, RMD_WORKLOADS
from app.rmd.stored import stored_node_state, stored_workload
from app.text import several
from app.ui.details import Amount, Detail, Line, amount, detail, line
from app.ui.objects import Field, Listed, objects_view
from app.ui.subjects import Target, target_of
from app.ui.view import Asked
from app.why.model import Verdict
from app.wire import JSON


async def _of_node(asked: Asked, it: Object, _verdict: Verdict | None) -> Detail:
    state = stored_node_state(it.json)
    rows: dict[str, JSON] = state.status.get("workloads") or {}
    ways = sum(map(_guaranteed, rows.values()))
    lines = list(map(_reservation, *zip(*sorted(rows.items()), strict=True))) if rows else []
    try:
        announced = await asked.kept(("cache ways", state.node), partial(_announced, state.node))
    except ApiError as refusal:
        if not refusal.status or refusal.status == 401:
            raise
        announced, lines = "", [line(refusal), *lines]
    hidden = whole_or(state.status.get("reservations"), 0) - len(rows)
    return detail(
        lines,
        amounts=_ways(ways, announced),
        more=max(0, hidden),
        node=state.node,
        reservations=state.status.get("reservations") or 0,
        ways=ways,
    )


def _guaranteed(row: JSON) -> int:
    """The ways that a reservation has for itself: those of the guaranteed pool have no minimum below the maximum."""
    most = whole_or(row.get("Cache Max"), 0)
    return most if most == whole_or(row.get("Cache Min"), 0) else 0


def _reservation(name: str, row: JSON) -> Line:
    """By what the daemon says of it; `name` is that of an RmdWorkload, with its namespace where it is known."""
    cache = f"cache ways {row.get('Cache Min', '?')} to {row['Cache Max']}" if row.get("Cache Max") else ""
    cores = f"cores {row['Core IDs']}" if row.get("Core IDs") else ""
    said = ", ".join(filter(None, (cache, cores, row.get("Cos Name"), row.get("Status"))))
    target = target_of(f"{RMD_WORKLOADS.kind} {name}") if "/" in name else None
    return line(said if target else f"{name}: {said}", target)


def _ways(used: int, announced: str) -> Iterator[Amount]:
    try:
        if announced:
            yield amount("cache ways", Decimal(used), announced)
    except QuantityError:
        return


async def _announced(node: str, cluster: Cluster) -> str:
    """The cache ways of the guaranteed pool that a node offers; "" where it has none. Raises ApiError."""
    try:
        check_dns_subdomain(node)
    except ValueError:
        return ""
    obj = await cluster.get(NODES, node)
    return "" if obj is None else str((objects.status(obj).get("allocatable") or {}).get(L3_CACHE_WAYS) or "")


async def _of_workload(_asked: Asked, it: Object, _verdict: Verdict | None) -> Detail:
    workload = stored_workload(it.json)
    states = sorted(workload.states.items())
    lines = (
        line(
            f"{state.get('status') or 'None'}: {state.get('response') or 'not asked yet'}",
            Target(kind=NODES.kind, namespace="", name=node),
        )
        for node, state in states
    )
    ready = objects.condition(it.json, READY)
    pod = workload.pod[0] if workload.pod is not None else ""
    return detail(lines, ready=ready.get("reason") or "", nodes=several(len(states), "node"), pod=pod)


VIEW = objects_view(
    "rmd",
    "RMD",
    "Nodes with the cache ways that are reserved for good and those that they offer; RmdWorkloads with their state on "
    "each node.",
    Listed(
        RMD_NODE_STATES,
        (Field("node", "node"), Field("reservations", "reservations"), Field("ways", "guaranteed ways")),
        _of_node,
    ),
    Listed(RMD_WORKLOADS, (Field("ready", "ready"), Field("nodes", "on"), Field("pod", "Pod")), _of_workload),
)
