"""Section `roles`: the Deployments and DaemonSets of Berth, their replicas, their leaders and versions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime, timedelta

from app.doctor.installed import Installed
from app.doctor.model import Severity
from app.doctor.objects import labels, waits_for
from app.errors import ApiError
from app.kube.resources import LEASES, PODS
from app.registry import ROLES
from app.status.model import Column, Found, Row, Section
from app.status.reading import Reading
from app.text import moment
from app.wire import JSON
from app.wiring import SYSTEM_NAMESPACE

_VERSION = "app.kubernetes.io/version"
_GOOD_FOR = 15
"""Seconds for which a Lease is good that does not say it."""


async def _read(reading: Reading) -> Found:
    workloads, there = await reading.workloads(), await reading.there()
    # A Lease in another namespace does not show that Berth is in the one that the user has named.
    named = reading.cluster.sought and not workloads
    rows = [await _row(reading, workload, there) for workload in workloads]
    elsewhere = [
        row async for row in _elsewhere(reading, {workload.role for workload in workloads}, there, at_home=named)
    ]
    left = [row for row in elsewhere if row.severity is Severity.warning]
    rows += [row for row in elsewhere if row.severity is Severity.ok]
    if not rows and not left and reading.cluster.sought and not reading.unread:
        text = f"no Deployment in namespace {reading.cluster.namespace} runs Berth: want the namespace of its release"
        rows.append(Row({"role": None, "kind": None, "name": None, "message": text}, Severity.error))
        return Found({"roles": 0, "ready": 0}, tuple(rows))
    ready = sum(row.severity is Severity.ok for row in rows)
    return Found({"roles": len(rows), "ready": ready}, (*rows, *left), tuple(reading.unread))


async def _row(reading: Reading, workload: Installed, there: datetime) -> Row:
    ready, wanted = replicas(workload)
    leader, note = await _leader(reading, workload, there)
    severity = Severity.ok
    if ready < wanted or not wanted:
        severity = Severity.warning if ready else Severity.error
    if note:
        severity = Severity.error
    elif not wanted:
        note = "it is scaled to 0" if workload.object["kind"] == "Deployment" else "no node runs it"
    elif ready < wanted:
        note = await _waits(reading, workload)
    values = {
        "role": workload.role,
        "kind": workload.object["kind"],
        "name": workload.name,
        "ready": ready,
        "wanted": wanted,
        "leader": leader,
        "version": version_of(workload),
        "message": note or None,
    }
    subject = f"{workload.object['kind']} {workload.namespace}/{workload.name}"
    return Row(values, severity, {"role": subject})


def replicas(workload: Installed) -> tuple[int, int]:
    """How many Pods are ready, and how many there should be."""
    spec, status = workload.object.get("spec") or {}, workload.object.get("status") or {}
    if workload.object["kind"] == "DaemonSet":
        return status.get("numberReady") or 0, status.get("desiredNumberScheduled") or 0
    return status.get("readyReplicas") or 0, spec.get("replicas", 1)


def version_of(workload: Installed) -> str | None:
    """The tag of its image; without one the label of the chart."""
    name = workload.image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2] or labels(workload.object).get(_VERSION)


async def _waits(reading: Reading, workload: Installed) -> str:
    """Why the first of its Pods that does not work does not; "" where none says it."""
    pods = reading.each(reading.cluster.paged(PODS, namespace=workload.namespace, label_selector=workload.selector))
    async with aclosing(pods):
        async for pod in pods:
            if (why := waits_for(pod)) is not None:
                return f"Pod {pod['metadata']['name']}: {': '.join(filter(None, why))}"
    return ""


async def _leader(reading: Reading, workload: Installed, there: datetime) -> tuple[str | None, str]:
    """The holder of the Lease that the role works by, and what is wrong with it."""
    name = workload.descriptor.lease
    if not name or workload.deployed.get("leader_elect", True) is False:
        return None, ""
    try:
        lease = await reading.cluster.get(LEASES, name, namespace=workload.home)
    except ApiError as refusal:
        reading.note(refusal)
        return None, ""
    return leader_of(lease, f"Lease {workload.home}/{name}", there)


def leader_of(lease: JSON | None, about: str, there: datetime) -> tuple[str | None, str]:
    """The holder of a Lease, and what is wrong with it, "" where nothing is."""
    spec = (lease or {}).get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), moment(spec.get("renewTime"))
    if not holder:
        return None, f"no replica holds {about}"
    if renewed is None or there - renewed > timedelta(seconds=spec.get("leaseDurationSeconds") or _GOOD_FOR):
        return str(holder), f"{about} was last renewed at {spec.get('renewTime') or 'no known time'}"
    return str(holder), ""


async def _elsewhere(reading: Reading, found: set[str], there: datetime, *, at_home: bool) -> AsyncIterator[Row]:
    """Roles that hold a Lease here and have no Deployment: they run as processes of their own, or have left it behind.

    With `at_home` only Leases in the namespace of Berth count. A Lease that is left behind has a warning, and is no
    role.
    """
    cluster = reading.cluster
    for role in ROLES if not reading.unread else ():
        if not role.lease or role.name in found:
            continue
        for namespace in {cluster.namespace: 0} if at_home else {cluster.namespace: 0, SYSTEM_NAMESPACE: 0}:
            lease = await reading.tried(cluster.get(LEASES, role.lease, namespace=namespace), None)
            holder, note = leader_of(lease, f"Lease {namespace}/{role.lease}", there)
            if holder:
                values = {"role": role.name, "kind": "Lease", "name": role.lease, "leader": holder}
                note = note and f"left behind, no Deployment here runs the role: {note}"
                yield Row({**values, "message": note or None}, Severity.warning if note else Severity.ok)


SECTION = Section(
    "roles",
    "ROLES",
    "What of Berth is installed here.",
    _read,
    totals={
        "roles": "roles that are installed here, without Leases that are left behind",
        "ready": "those with all replicas and a leader",
    },
    columns=(
        Column("role", "the role, as in `berth ROLE`"),
        Column("kind", "Deployment or DaemonSet; Lease if neither is here", shown="hidden"),
        Column("name", "the name of that object", shown="hidden"),
        Column("ready", "replicas that are ready; null for a Lease", of="wanted"),
        Column("wanted", "replicas that there should be", shown="hidden"),
        Column("leader", "the holder of the role's Lease; null if it has none"),
        Column("version", "the tag of the image; without a tag, the label `app.kubernetes.io/version`"),
        Column("message", "why it does not work", shown="note"),
    ),
    empty="no Deployment here runs Berth; --berth-namespace names another namespace",
)
