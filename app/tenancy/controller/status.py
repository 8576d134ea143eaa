"""The status of a Tenant: its conditions and the one-line result, from what the controller found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.kube.client import KubeClient
from app.kube.conditions import since, status_of
from app.kube.writing import apply_status
from app.tenancy.tenants.namespace import FIELD_MANAGER
from app.text import abridged, enumerated, stamp
from app.wire import JSON
from app.workloads.model import TENANTS, tenant_namespace


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that must hold. `problem` is "" where it does; `note` is for a person then."""

    type: str
    reason: str = ""
    problem: str = ""
    note: str = ""


async def write_status(
    client: KubeClient, obj: JSON, findings: Sequence[Finding], *, suspended: bool, now: datetime
) -> None:
    """Write what is ours of the status where it differs: all but what is noted of the agent, and Connected.

    Raises ApiError: also where another Tenant has the name by now.
    Times of transition are those of the object where a condition has not changed.
    """
    name, generation = obj["metadata"]["name"], int(obj["metadata"].get("generation") or 0)
    problems = [finding for finding in findings if finding.problem]
    message = enumerated([finding.problem for finding in problems])
    result = "error" if problems else "success"
    ready = Finding("Ready", problems[0].reason if problems else "", message)
    if not problems and suspended:
        result, message = "", "suspended: the gateway refuses the tenant's agent"
        ready = Finding("Ready", "Suspended", message)

    def condition(finding: Finding) -> JSON:
        status = "False" if finding.problem else "True"
        return {
            "type": finding.type,
            "status": status,
            "reason": finding.reason or "AsWanted",
            "message": abridged(finding.problem or finding.note),
            "observedGeneration": generation,
            "lastTransitionTime": since(status_of(obj), finding.type, status, now=stamp(now)),
        }

    status = {
        "namespace": tenant_namespace(name),
        "result": result,
        "message": message,
        "observedGeneration": generation,
        "conditions": [condition(finding) for finding in (ready, *findings)],
    }
    before = status_of(obj)
    ours = {finding.type for finding in (ready, *findings)}
    shown = {name: before.get(name) for name in status}
    shown["conditions"] = [entry for entry in before.get("conditions") or () if entry.get("type") in ours]
    if status != shown:
        await apply_status(client, TENANTS, ("", name), obj["metadata"]["uid"], status, manager=FIELD_MANAGER)
