"""Section `rmd`, where its kinds are there."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.doctor import objects
from app.doctor.model import Severity
from app.rmd.model import CONNECTED, RMD_NODE_STATES, RMD_WORKLOADS
from app.status.model import Column, Found, Row, Section
from app.status.reading import Reading
from app.status.verdicts import COLUMNS, Tally
from app.wire import JSON


async def _read(reading: Reading) -> Found | None:
    cluster = reading.cluster
    if not await cluster.serves(RMD_WORKLOADS if cluster.scope else RMD_NODE_STATES):
        return None
    rows, nodes, workloads = list[Row](), 0, 0
    # RmdNodeStates are in one namespace, and say how the nodes of all are.
    async for state in _states(reading):
        nodes += 1
        said = objects.condition(state, CONNECTED)
        if said.get("status") != "True":
            node = (state.get("spec") or {}).get("node") or state["metadata"]["name"]
            text = str(said.get("message") or "the controller has not asked the daemon yet")
            rows.append(Row({"node": node, "message": text}, Severity.warning))
    tally = Tally(reading, RMD_WORKLOADS)
    async for workload in reading.each(cluster.paged(RMD_WORKLOADS)):
        workloads += 1
        await tally.add(workload)
    of_nodes = {} if cluster.scope else {"nodes": nodes, "ready": nodes - len(rows)}
    totals = {**of_nodes, "workloads": workloads}
    return Found(totals, (*rows, *tally.rows()), tuple(reading.unread))


async def _states(reading: Reading) -> AsyncIterator[JSON]:
    if not reading.cluster.scope:
        async for state in reading.each(reading.cluster.paged(RMD_NODE_STATES)):
            yield state


SECTION = Section(
    "rmd",
    "RMD",
    "Nodes whose daemon of RMD does not answer, and why RmdWorkloads are not reserved.",
    _read,
    totals={"nodes": "RmdNodeStates", "ready": "those whose daemon answers", "workloads": "RmdWorkloads"},
    columns=(
        Column("node", "a node whose daemon does not answer; null for RmdWorkloads"),
        *COLUMNS,
    ),
    of_users=True,
)
