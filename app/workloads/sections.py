"""Section `companions`: how many rules want, how many run, and why the others wait, grouped by reason.

In the infra cluster rules say how many are wanted, and Pods what became of them. In a tenant's cluster the rules and
UVSPods of namespace universe say both. Objects are read page by page and counted; none is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from app.doctor import objects
from app.doctor.model import Severity
from app.kube.resources import Resource
from app.status.model import Column, Found, Row, Section, Value
from app.status.reading import Reading
from app.tenancy.agent.outages import NOT_CONNECTED
from app.wire import JSON
from app.workloads.model import ADMIN_RULES, COMPANION, MIRROR, TENANT_RULES, UVS_PODS, WORKLOAD_RULES
from app.workloads.why.companions import mirrored

PATIENCE = 300.0
"""Seconds in which a companion starts: scheduling and images take their time."""
_GROUPS = 50
"""Reasons with a group of their own; all others are in one group."""
OTHER = "Other"


@dataclass(slots=True)
class Group:
    """Companions that wait for the same reason; `example` and `message` are those of the first."""

    example: str
    message: str
    count: int = 0
    severity: Severity = Severity.ok


@dataclass(slots=True)
class Tally:
    """Counts of companions; `found` tells whether there was any object to count.

    Rules want `wanted` of them. Of `mirrors`, all UVSPods, tenants wrote `asked`. A rule that is not connected does not
    say how many it wants, and its mirrors are still there.
    """

    wanted: int = 0
    asked: int = 0
    mirrors: int = 0
    running: int = 0
    ended: int = 0
    found: bool = False
    groups: dict[str, Group] = field(default_factory=dict)

    def wait(self, reason: str, example: str, message: str, severity: Severity, count: int = 1) -> None:
        if reason not in self.groups and len(self.groups) >= _GROUPS:
            reason = OTHER
        group = self.groups.setdefault(reason, Group(example, message))
        group.count += count
        group.severity = max(group.severity, severity)

    def rule(self, rule: JSON) -> None:
        """A rule of either cluster: what it wants, and what of that was not created."""
        self.found = True
        said, ready = objects.status(rule), objects.condition(rule, "Ready")
        matched, created = _number(said.get("matched")), _number(said.get("created"))
        self.wanted += matched
        missing, failed = max(0, matched - created), said.get("result") == "error"
        about = objects.subject(rule["kind"], rule)
        if not ready:
            self.wait("RuleNotProcessed", about, "no controller has looked at the rule", Severity.info, missing)
        elif ready.get("status") != "True" and (missing or failed or ready.get("reason") == NOT_CONNECTED):
            severity = Severity.error if failed else Severity.warning if not missing else Severity.info
            text = str(ready.get("message") or said.get("message") or "")
            self.wait(str(ready.get("reason") or "NotReady"), about, text, severity, missing)
        elif missing:
            # The rule is well; some of its workloads cannot have a companion.
            self.wait("Excluded", about, str(said.get("message") or ready.get("message") or ""), Severity.info, missing)

    def pod(self, pod: JSON, now: datetime) -> None:
        """A companion in the infra cluster."""
        self.found = True
        phase = objects.status(pod).get("phase")
        if phase == "Succeeded":
            self.ended += 1
        elif (why := objects.waits_for(pod)) is None:
            self.running += 1
        else:
            late = objects.age(pod, now) > PATIENCE or why[0] in objects.FAILING
            self.wait(why[0], objects.subject("Pod", pod), why[1], Severity.warning if late else Severity.info)

    def mirror(self, uvs_pod: JSON) -> None:
        """A UVSPod of a tenant's cluster: a mirror, or one that the tenant wrote, which wants a Pod too."""
        self.found = True
        self.asked += MIRROR not in objects.labels(uvs_pod)
        self.mirrors += 1
        said, ready = objects.status(uvs_pod), objects.condition(uvs_pod, "Ready")
        phase, good = said.get("phase"), ready.get("status", "Unknown") == "True"
        if good and (why := mirrored(uvs_pod)) is not None:
            failing = why[0] in objects.FAILING or phase == "Failed"
            severity = Severity.warning if failing else Severity.info
            self.wait(why[0], objects.subject("UVSPod", uvs_pod), why[1], severity)
        elif good and phase == "Running":
            self.running += 1
        elif good and phase == "Succeeded":
            self.ended += 1
        else:
            reason = str(phase or "NotCreated") if good else str(ready.get("reason") or "NotProcessed")
            severity = Severity.error if said.get("result") == "error" else Severity.info
            text = "" if good else str(ready.get("message") or said.get("message") or "")
            self.wait(reason, objects.subject("UVSPod", uvs_pod), text, severity)

    def rows(self) -> Iterator[Row]:
        for reason, group in sorted(self.groups.items(), key=lambda item: (-item[1].severity, -item[1].count, item[0])):
            values: dict[str, Value] = {"reason": reason, "count": group.count, "example": group.example}
            yield Row({**values, "message": group.message or None}, group.severity)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


async def _read(reading: Reading) -> Found | None:
    cluster, tally = reading.cluster, Tally()
    now = await reading.there()
    served = [await _rules(reading, tally, resource) for resource in (ADMIN_RULES, TENANT_RULES)]
    refused = len(reading.unread)
    async for pod in reading.each(cluster.pods(label_selector=COMPANION)):
        tally.pod(pod, now)
    if not tally.found:
        # Where one cluster serves as both, rules and UVSPods of the tenant would count a second time.
        served.append(await _rules(reading, tally, WORKLOAD_RULES))
        async for obj in reading.each(cluster.paged(UVS_PODS)):
            tally.mirror(obj)
    if not any(served) and not tally.found and not reading.unread:
        return None
    waiting = sum(group.count for group in tally.groups.values())
    # What was counted before a refusal is less than there is.
    rules_read, pods_read = not refused, len(reading.unread) == refused
    totals = {
        "wanted": max(tally.wanted + tally.asked, tally.mirrors) if rules_read else None,
        "running": tally.running if pods_read else None,
        "waiting": waiting if rules_read and pods_read else None,
        "ended": tally.ended if pods_read else None,
    }
    return Found(totals, tuple(tally.rows()), tuple(reading.unread))


async def _rules(reading: Reading, tally: Tally, resource: Resource) -> bool:
    """Counts all rules of a kind; whether there is the kind."""
    if not await reading.tried(reading.cluster.serves(resource), default=False):
        return False
    async for rule in reading.each(reading.cluster.paged(resource)):
        tally.rule(rule)
    return True


SECTION = Section(
    "companions",
    "COMPANIONS",
    "The Pods that rules create on DPUs; in a tenant's cluster as rules and UVSPods show them.",
    _read,
    totals={
        "wanted": "workloads that rules match, and UVSPods that tenants wrote",
        "running": "those that run and are ready",
        "waiting": "those that are not created, or do not run",
        "ended": "those that ran to their end",
    },
    columns=(
        Column("reason", "the reason of the rule, of the Pod or of its container"),
        Column("count", "how many wait for it; 0 for a rule that fails before it wants any"),
        Column("example", "the first of them"),
        Column("message", "what is said of the first", shown="note"),
    ),
    of_users=True,
)
