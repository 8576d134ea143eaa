"""Sections of one line: `appwrappers`, `rmd` and `claims`, where their kinds or their roles are there."""

from __future__ import annotations

from collections import Counter

from app.appwrappers.model import APP_WRAPPERS, PHASES
from app.claims.stored import stored_claim
from app.doctor import objects
from app.doctor.model import Severity
from app.kube.resources import RESOURCE_CLAIMS
from app.rmd.model import CONNECTED, RMD_NODE_STATES, RMD_WORKLOADS
from app.status.model import Column, Found, Row, Section
from app.status.reading import Reading


async def _app_wrappers(reading: Reading) -> Found | None:
    if not await reading.cluster.serves(APP_WRAPPERS):
        return None
    phases = Counter[str]()
    async for obj in reading.each(reading.cluster.paged(APP_WRAPPERS)):
        phases[str(objects.status(obj).get("phase") or "New")] += 1
    known = {phase: phases[phase] for phase in ("New", *PHASES) if phases[phase]}
    return Found({"all": phases.total(), **known}, unread=tuple(reading.unread))


async def _rmd(reading: Reading) -> Found | None:
    cluster = reading.cluster
    if not await cluster.serves(RMD_NODE_STATES):
        return None
    rows, nodes, workloads = list[Row](), 0, 0
    async for state in reading.each(cluster.paged(RMD_NODE_STATES)):
        nodes += 1
        said = objects.condition(state, CONNECTED)
        if said.get("status") != "True":
            node = (state.get("spec") or {}).get("node") or state["metadata"]["name"]
            text = str(said.get("message") or "the controller has not asked the daemon yet")
            rows.append(Row({"node": node, "message": text}, Severity.warning))
    async for _ in reading.each(cluster.paged(RMD_WORKLOADS)):
        workloads += 1
    totals = {"nodes": nodes, "ready": nodes - len(rows), "workloads": workloads}
    return Found(totals, tuple(rows), tuple(reading.unread))


async def _claims(reading: Reading) -> Found | None:
    """Every cluster has ResourceClaims; they count where a role of Berth publishes their network data."""
    roles = await reading.workloads()
    if not any(
        role.role == "claims-node" or (role.role == "controller" and "claims" in role.setting("controllers"))
        for role in roles
    ):
        return None
    allocated = published = 0
    async for obj in reading.each(reading.cluster.paged(RESOURCE_CLAIMS)):
        claim = stored_claim(obj)
        allocated += claim.allocated
        published += any(entry.network_data is not None for entry in claim.entries.values())
    return Found({"allocated": allocated, "published": published}, unread=tuple(reading.unread))


APP_WRAPPERS_SECTION = Section(
    "appWrappers",
    "APPWRAPPERS",
    "AppWrappers by their phase.",
    _app_wrappers,
    totals={"all": "AppWrappers", "<phase>": "those in this phase, as `status.phase` has it; `New` before the first"},
)
RMD_SECTION = Section(
    "rmd",
    "RMD",
    "Nodes with a daemon of RMD.",
    _rmd,
    totals={"nodes": "RmdNodeStates", "ready": "those whose daemon answers", "workloads": "RmdWorkloads"},
    columns=(
        Column("node", "a node whose daemon does not answer"),
        Column("message", "why not", shown="note"),
    ),
)
CLAIMS_SECTION = Section(
    "claims",
    "CLAIMS",
    "ResourceClaims, where Berth publishes network data in them.",
    _claims,
    totals={"allocated": "ResourceClaims with devices", "published": "those with network data of a device"},
)
