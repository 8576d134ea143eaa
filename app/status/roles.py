"""Section `roles`: the Deployments and DaemonSets of Berth, their replicas, their leaders and versions."""

from __future__ import annotations

from datetime import datetime, timedelta

from app.doctor.installed import Installed
from app.doctor.model import Severity
from app.doctor.objects import labels
from app.kube.resources import LEASES
from app.status.model import Column, Found, Row, Section
from app.status.reading import Reading
from app.text import moment

_VERSION = "app.kubernetes.io/version"
_RENEWED = 15
"""Seconds for which a Lease is good that does not say it."""


async def _read(reading: Reading) -> Found:
    workloads, there = await reading.workloads(), await reading.there()
    rows = [await _row(reading, one, there) for one in workloads]
    ready = sum(row.severity is Severity.ok for row in rows)
    return Found({"roles": len(rows), "ready": ready}, tuple(rows), tuple(reading.unread))


async def _row(reading: Reading, one: Installed, there: datetime) -> Row:
    ready, wanted = replicas(one)
    leader, note = await _leader(reading, one, there)
    severity = Severity.ok
    if ready < wanted or not wanted:
        severity = Severity.warning if ready else Severity.error
    if note:
        severity = Severity.error
    if one.object["kind"] == "DaemonSet" and not wanted:
        severity, note = Severity.warning, "no node runs it"
    values = {
        "role": one.role,
        "kind": one.object["kind"],
        "name": one.name,
        "ready": ready,
        "wanted": wanted,
        "leader": leader,
        "version": version_of(one),
        "message": note or None,
    }
    return Row(values, severity)


def replicas(one: Installed) -> tuple[int, int]:
    """How many Pods are ready, and how many there should be."""
    spec, status = one.object.get("spec") or {}, one.object.get("status") or {}
    if one.object["kind"] == "DaemonSet":
        return status.get("numberReady") or 0, status.get("desiredNumberScheduled") or 0
    return status.get("readyReplicas") or 0, spec.get("replicas", 1)


def version_of(one: Installed) -> str | None:
    """The tag of its image; without one the label of the chart."""
    name = one.image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2] or labels(one.object).get(_VERSION)


async def _leader(reading: Reading, one: Installed, there: datetime) -> tuple[str | None, str]:
    """The holder of the Lease that the role works by, and what is wrong with it."""
    name = one.descriptor.lease
    if not name or one.deployed.get("leader_elect", True) is False:
        return None, ""
    refused = len(reading.unread)
    lease = await reading.tried(reading.cluster.get(LEASES, name, namespace=one.home), None)
    if len(reading.unread) > refused:
        return None, ""
    spec = (lease or {}).get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), moment(spec.get("renewTime"))
    if not holder:
        return None, f"no replica holds Lease {one.home}/{name}"
    age = there - renewed if renewed else None
    if age is None or age > timedelta(seconds=spec.get("leaseDurationSeconds") or _RENEWED):
        since = f"since {spec['renewTime']}" if renewed else "at any time"
        return str(holder), f"did not renew Lease {one.home}/{name} {since}"
    return str(holder), ""


SECTION = Section(
    "roles",
    "ROLES",
    "What of Berth is installed here.",
    _read,
    totals={"roles": "Deployments and DaemonSets of Berth", "ready": "those with all replicas and a leader"},
    columns=(
        Column("role", "the role, as in `berth ROLE`"),
        Column("kind", "Deployment or DaemonSet", shown="hidden"),
        Column("name", "the name of that object", shown="hidden"),
        Column("ready", "replicas that are ready", of="wanted"),
        Column("wanted", "replicas that there should be", shown="hidden"),
        Column("leader", "the holder of the role's Lease; null where it has none"),
        Column("version", "the tag of the image; without a tag, the label `app.kubernetes.io/version`"),
        Column("message", "why it does not work", shown="note"),
    ),
)
