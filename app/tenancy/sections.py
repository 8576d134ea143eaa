"""Sections of the tenancy wing: `tenants` in the infra cluster, and `agent` in a tenant's.

`tenants` shows agents, certificates, hosts and DPUs of each tenant; `agent` whether the agent runs and reaches the
gateway. The agent says in rules and UVS objects when it does not. Where no replica of it is ready, nothing says it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from app.doctor import objects
from app.doctor.catalog import listed
from app.doctor.model import Severity
from app.placement.settings import PlacementSettings
from app.status.model import Column, Found, Row, Section
from app.status.reading import Reading
from app.status.roles import replicas
from app.tenancy.agent.outages import NOT_CONNECTED
from app.tenancy.model import AGENT_CONNECTED, CONNECTED, NO_CONTACT, tenant_state
from app.text import moment
from app.wire import JSON
from app.workloads.model import TENANTS, UVS_RESOURCES, WORKLOAD_RULES

SOON = 14
"""Days before the end of a certificate in which the screen warns of it."""


async def _tenants(reading: Reading) -> Found | None:
    tenants = await reading.tried(reading.cluster.listed(TENANTS), [])
    if not tenants and not reading.unread and not await reading.cluster.serves(TENANTS):
        return None
    now = await reading.there()
    settings = await reading.cluster.settings(PlacementSettings, role="controller", otherwise="webhook")
    hosts, ready, total = set[str](), Counter[str](), Counter[str]()
    async for node in reading.nodes():
        own = objects.labels(node)
        tenant = own.get(settings.tenant_node_label) or ""
        total[tenant] += 1
        ready[tenant] += objects.condition(node, "Ready").get("status") in (None, "True")
        hosts.add(own.get(settings.host_label) or "")
    known = None if reading.unread else hosts
    dpus = {name: (ready[name], total[name]) for name in total}
    rows = tuple(row_of(tenant, now=now, dpus=dpus, hosts=known) for tenant in tenants)
    connected = sum(row.values["agent"] == AGENT_CONNECTED for row in rows)
    return Found({"tenants": len(rows), "connected": connected}, rows, tuple(reading.unread))


def row_of(tenant: JSON, *, now: datetime, dpus: Mapping[str, tuple[int, int]], hosts: set[str] | None) -> Row:
    """`dpus` are by tenant how many are ready, and how many there are; `hosts` those with a node, None if unknown."""
    name, spec, status = tenant["metadata"]["name"], tenant.get("spec") or {}, objects.status(tenant)
    connected = objects.condition(tenant, CONNECTED)
    own: Sequence[str] | None = spec.get("hosts")
    days = certificate_days((spec.get("identity") or {}).get("certificates") or (), now)
    state = tenant_state(tenant)
    ready, total = (None, None) if hosts is None else dpus.get(name, (0, 0))
    notes, severity = [], Severity.ok
    if state == "error":
        notes.append(str(status.get("message") or "the Tenant is not ready"))
        severity = Severity.error
    if connected.get("status") in ("False", "Unknown") and state != "suspended":
        notes.append(str(connected.get("message") or connected.get("reason")))
        # A new tenant has no agent yet: the doctor calls it information, too.
        severity = max(severity, Severity.info if connected.get("reason") == NO_CONTACT else Severity.error)
    if days is not None and days < SOON:
        notes.append(f"its last certificate ends in {days} days" if days >= 0 else "its certificates have ended")
        severity = max(severity, Severity.warning if days >= 0 else Severity.error)
    if missing := sorted(set(own or ()) - hosts) if hosts is not None else []:
        notes.append(f"no node is the DPU of {listed(missing)}")
        severity = max(severity, Severity.warning)
    if ready is not None and total is not None and ready < total:
        notes.append(f"{total - ready} of its DPUs {'is' if total - ready == 1 else 'are'} not ready")
        severity = max(severity, Severity.warning)
    values = {
        "tenant": name,
        "agent": connected.get("reason"),
        "lastContact": status.get("lastContact"),
        "certificateDays": days,
        "hosts": None if own is None else len(own),
        "readyDpus": ready,
        "dpus": total,
        "state": state,
        "message": "; ".join(notes) or None,
    }
    return Row(values, severity)


def certificate_days(pins: Iterable[JSON], now: datetime) -> int | None:
    """Whole days until the last of the pinned certificates ends; None where the Tenant notes no end."""
    ends = [moment(pin.get("until")) for pin in pins]
    dates = [end for end in ends if end is not None]
    return None if not dates or len(dates) < len(ends) else (max(dates) - now) // timedelta(days=1)


async def _agent(reading: Reading) -> Found | None:
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
    return Found({"objects": count}, (_link(apart, agents, seen=not reading.unread),), tuple(reading.unread))


def _link(apart: str, agents: list[tuple[int, int]], *, seen: bool) -> Row:
    """`seen` is whether everything could be read."""
    if apart:
        return Row({"connected": "no", "message": apart}, Severity.error)
    if not agents:
        message = "no Deployment here runs the agent" if seen else None
        return Row({"connected": "unknown", "message": message}, Severity.info)
    if not any(ready for ready, _ in agents):
        return Row({"connected": "no", "message": "no replica of the agent is ready"}, Severity.error)
    return Row({"connected": "yes"})


TENANTS_SECTION = Section(
    "tenants",
    "TENANTS",
    "The tenants of an infra cluster.",
    _tenants,
    totals={"tenants": "Tenant objects", "connected": "those whose agent is connected"},
    columns=(
        Column("tenant", "the name of the Tenant", kind=TENANTS.kind),
        Column("agent", "the reason of its condition `Connected`; null if no gateway has set it"),
        Column("lastContact", "the last call of its agent that the gateway accepted", "CONTACT", shown="age"),
        Column("certificateDays", "days until its last certificate ends; null if the Tenant notes no end", "CERT"),
        Column("hosts", "how many hosts it has; null if any host may be its own"),
        Column("readyDpus", "its DPUs that are ready; null if nodes could not be read", "DPUS", of="dpus"),
        Column("dpus", "nodes with its label", shown="hidden"),
        Column("state", "ready, pending, error, suspended or removing"),
        Column("message", "what is wrong, and what will be", shown="note"),
    ),
)
AGENT_SECTION = Section(
    "agent",
    "AGENT",
    "The link of a tenant's cluster to the infra cluster.",
    _agent,
    totals={"objects": "rules and UVS objects that the agent sends"},
    columns=(
        Column("connected", "no if objects are `NotConnected` or no replica of the agent is ready; unknown; else yes"),
        Column("message", "since when and why it is not", shown="note"),
    ),
)
