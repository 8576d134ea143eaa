"""Section `agent`, in a tenant's cluster: whether the agent reaches the gateway, as rules and UVS objects say it."""

from __future__ import annotations

from app.doctor import objects
from app.doctor.model import Severity
from app.status.model import Column, Found, Row, Section
from app.status.reading import Reading
from app.wire import JSON
from app.workloads.model import UVS_RESOURCES, WORKLOAD_RULES

NOT_CONNECTED = "NotConnected"


async def _read(reading: Reading) -> Found | None:
    cluster, count, apart = reading.cluster, 0, list[JSON]()
    if not await reading.tried(cluster.serves(WORKLOAD_RULES), default=False) and not reading.unread:
        return None
    for resource in (WORKLOAD_RULES, *UVS_RESOURCES):
        async for obj in reading.each(cluster.paged(resource)):
            count += 1
            if not apart and objects.condition(obj, "Ready").get("reason") == NOT_CONNECTED:
                apart.append(objects.condition(obj, "Ready"))
    rows = tuple(
        Row({"connected": "no", "since": one.get("lastTransitionTime"), "message": one.get("message")}, Severity.error)
        for one in apart
    )
    if count and not rows:
        rows = (Row({"connected": "yes", "since": None, "message": None}),)
    return Found({"objects": count}, rows, tuple(reading.unread))


SECTION = Section(
    "agent",
    "AGENT",
    "The link of a tenant's cluster to the infra cluster.",
    _read,
    totals={"objects": "rules and UVS objects that the agent sends"},
    columns=(
        Column("connected", "yes, or no where objects are `NotConnected`; no item where there are no objects"),
        Column("since", "since when it is not", shown="age"),
        Column("message", "why not", shown="note"),
    ),
)
