"""Section `agent`, in a tenant's cluster: whether the agent runs and reaches the gateway.

It says in rules and UVS objects when it does not. Where no replica of it is ready, nothing says it.
"""

from __future__ import annotations

from app.doctor import objects
from app.doctor.model import Severity
from app.status.model import Column, Found, Row, Section
from app.status.reading import Reading
from app.status.roles import replicas
from app.tenancy.agent.outages import NOT_CONNECTED
from app.workloads.model import UVS_RESOURCES, WORKLOAD_RULES


async def _read(reading: Reading) -> Found | None:
    cluster, count, apart = reading.cluster, 0, ""
    if not await cluster.serves(WORKLOAD_RULES):
        return None
    for resource in (WORKLOAD_RULES, *UVS_RESOURCES):
        async for obj in reading.each(cluster.paged(resource)):
            count += 1
            ready = objects.condition(obj, "Ready")
            if ready.get("reason") == NOT_CONNECTED:
                apart = apart or str(ready.get("message") or "not connected")
    agents = [replicas(workload) for workload in await reading.workloads() if workload.role == "agent"]
    return Found({"objects": count}, (_row(apart, agents, seen=not reading.unread),), tuple(reading.unread))


def _row(apart: str, agents: list[tuple[int, int]], *, seen: bool) -> Row:
    """`seen` is whether everything could be read."""
    if apart:
        return Row({"connected": "no", "message": apart}, Severity.error)
    if not agents:
        message = "no Deployment here runs the agent" if seen else None
        return Row({"connected": "unknown", "message": message}, Severity.info)
    if not any(ready for ready, _ in agents):
        return Row({"connected": "no", "message": "no replica of the agent is ready"}, Severity.error)
    return Row({"connected": "yes"})


SECTION = Section(
    "agent",
    "AGENT",
    "The link of a tenant's cluster to the infra cluster.",
    _read,
    totals={"objects": "rules and UVS objects that the agent sends"},
    columns=(
        Column(
            "connected", "no where objects are `NotConnected` or no replica of the agent is ready; unknown; else yes"
        ),
        Column("message", "since when and why it is not", shown="note"),
    ),
)
