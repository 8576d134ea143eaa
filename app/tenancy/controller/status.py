"""The status of a Tenant: its conditions and the one-line result, from what the controller found. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.text import stamp
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that must hold. `problem` is "" where it does; `note` is for a person then."""

    type: str
    reason: str = ""
    problem: str = ""
    note: str = ""


def tenant_status(
    findings: Sequence[Finding],
    *,
    namespace: str,
    suspended: bool,
    generation: int,
    present: JSON,
    now: datetime,
) -> JSON:
    """The whole status; times of transition are those of `present` where a condition has not changed."""
    problems = [finding for finding in findings if finding.problem]
    message = "; ".join(finding.problem for finding in problems)
    result = "error" if problems else "success"
    ready = Finding("Ready", problems[0].reason if problems else "", message)
    if not problems and suspended:
        result, message = "", "suspended: the gateway turns the tenant away"
        ready = Finding("Ready", "Suspended", message)
    before = {
        item["type"]: item for item in present.get("conditions") or [] if isinstance(item, dict) and "type" in item
    }
    return {
        "namespace": namespace,
        "result": result,
        "message": message,
        "observedGeneration": generation,
        "conditions": [
            _condition(finding, before.get(finding.type) or {}, generation=generation, now=now)
            for finding in (ready, *findings)
        ],
    }


def _condition(finding: Finding, before: dict[str, Any], *, generation: int, now: datetime) -> JSON:
    status = "False" if finding.problem else "True"
    unchanged = before.get("status") == status and before.get("lastTransitionTime")
    return {
        "type": finding.type,
        "status": status,
        "reason": finding.reason or "AsWanted",
        "message": finding.problem or finding.note,
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if unchanged else stamp(now),
    }
