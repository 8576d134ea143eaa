"""Section `services`, where the controller of Services on secondary networks runs."""

from __future__ import annotations

from app.kube.resources import ENDPOINT_SLICES, SERVICES
from app.services.caches import stored_service
from app.services.model import MANAGED_BY, OURS
from app.services.slices import stored_endpoint_slice
from app.services.why.reading import CONTROLLER
from app.status.model import Column, Found, Section
from app.status.reading import Reading
from app.status.verdicts import Reasons


async def _read(reading: Reading) -> Found | None:
    """Why a Service has no endpoints, the Pods say: `berth why` and the doctor read these."""
    cluster = reading.cluster
    if not cluster.scope and CONTROLLER not in await cluster.controllers():
        return None
    ours = cluster.paged(ENDPOINT_SLICES, label_selector=f"{MANAGED_BY}={OURS}")
    slices = [stored async for obj in reading.each(ours) if (stored := stored_endpoint_slice(obj)) is not None]
    with_endpoints = {stored.of for stored in slices if stored.endpoints}
    total, lacking = 0, Reasons()
    async for obj in reading.each(cluster.paged(SERVICES)):
        service = stored_service(obj)
        if service is None:
            continue
        total += 1
        if service.problem is not None or service.key not in with_endpoints:
            lacking.add(service.problem.reason if service.problem else "NoEndpoints", "/".join(service.key))
    totals = {"services": total, "without": None if reading.unread else lacking.total}
    return Found(totals, () if reading.unread else lacking.rows(), tuple(reading.unread))


SECTION = Section(
    "services",
    "SERVICES",
    "Services on secondary networks; items are those without endpoints, by reason.",
    _read,
    words={"without": "of them without endpoints"},
    totals={"services": "Services on secondary networks", "without": "those without endpoints there"},
    columns=(
        Column("reason", "`NoEndpoints`, or what is wrong with an annotation; `berth why service/NAME` says why"),
        Column("count", "how many"),
        Column("example", "the first of them"),
    ),
    of_users=True,
)
