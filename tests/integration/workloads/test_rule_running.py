"""What a rule says of the workloads that it matches and of the companions that run, while its result is `success`."""

from __future__ import annotations

import time
from typing import Any

from app.kube.conditions import condition
from app.workloads.model import ADMIN_RULES, TENANT_RULES, WORKLOADS
from tests.support.waiting import eventually
from tests.support.workloads import T2, Infra

DOTTED = ("state.extra.labels.app.kubernetes.io", ["web"])
QUOTED = ('state.extra.labels."app.kubernetes.io"', ["web"])
LABELS = {"app.kubernetes.io": "web"}
STARTED = {
    "phase": "Running",
    "conditions": [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")],
}


def said(infra: Infra, kind: str, resource: Any = TENANT_RULES) -> tuple[str | None, str | None, str | None]:
    """Status, reason and message of a condition of the only rule of this resource."""
    (found,) = infra.stored(resource)
    told = condition(found.get("status") or {}, kind)
    return told.get("status"), told.get("reason"), told.get("message")


async def test_a_rule_that_matches_nothing_says_so_and_why(infra: Infra) -> None:
    await infra.workload("u1", labels=LABELS)
    await infra.rule("r", match=DOTTED)
    async with infra.controller(status_interval=0.05):
        await eventually(lambda: said(infra, "Matched")[1] == "ImpossibleKey")
        status = infra.status(TENANT_RULES, "r")
        assert (status["result"], status["matched"], status["running"]) == ("success", 0, 0)
        message = said(infra, "Matched")[2]
        assert message == (
            f"no workload can match: spec.workloadTerms[0].matchExpressions[0].key: quote labels with dots: {QUOTED[0]}"
        )
        assert said(infra, "Running")[:2] == ("False", "NoCompanion")
        assert said(infra, "Ready")[:2] == ("True", "AsDesired")
        await infra.rule("r", match=QUOTED)
        await eventually(lambda: said(infra, "Matched") == ("True", "WorkloadsMatch", "1 workload matches"))
        await infra.remove(WORKLOADS, "workload-u1")
        await eventually(lambda: said(infra, "Matched") == ("False", "NoWorkloadMatches", "no workload matches"))


async def test_companions_that_are_pending_are_counted_with_the_reason(infra: Infra) -> None:
    for name in ("u1", "u2", "u3"):
        await infra.workload(name, node="" if name == "u3" else "host-a")
    await infra.rule("r", policy="SameNode")
    async with infra.controller(status_interval=0.05):
        await eventually(lambda: said(infra, "Running")[2] == "0 of 3 companions run: 2 Pending, 1 NoNode")
        await infra.unschedulable("r-u1")
        await infra.bind("r-u2")
        await infra.set_status("r-u2", STARTED)
        text = "1 of 3 companions run: 1 NoNode, 1 Unschedulable"
        await eventually(lambda: said(infra, "Running") == ("False", "NoNode", text))
        status = infra.status(TENANT_RULES, "r")
        assert (status["result"], status["matched"], status["created"], status["running"]) == ("success", 3, 2, 1)
        await infra.bind("r-u1")
        await infra.set_status("r-u1", STARTED)
        await infra.remove(WORKLOADS, "workload-u3")
        await eventually(lambda: said(infra, "Running") == ("True", "CompanionsRun", "2 of 2 companions run"))
        # One that no longer runs, and one that is replaced.
        crashing = [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
        ready = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
        await infra.set_status("r-u1", {"conditions": ready, "containerStatuses": crashing})
        text = "1 of 2 companions run: 1 CrashLoopBackOff"
        await eventually(lambda: said(infra, "Running") == ("False", "CrashLoopBackOff", text))
        await infra.rule("r", policy="SameNode", image="nginx:2")
        await eventually(lambda: said(infra, "Running")[2] == "0 of 2 companions run: 2 Replacing")


async def test_an_admin_rule_counts_those_of_all_tenants(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.workload("u2", namespace=T2)
    await infra.admin_rule("a")
    async with infra.controller(status_interval=0.05):
        await eventually(lambda: said(infra, "Running", ADMIN_RULES)[2] == "0 of 2 companions run: 2 Pending")
        for name in ("a-tenant-tenant1-u1", "a-tenant-tenant2-u2"):
            await infra.bind(name, "universe")
            await infra.set_status(name, STARTED, "universe")
        await eventually(lambda: said(infra, "Running", ADMIN_RULES)[0] == "True")
        assert said(infra, "Matched", ADMIN_RULES)[2] == "2 workloads match"


async def test_companions_that_start_cost_no_other_request_than_few_statuses(infra: Infra) -> None:
    """One write when they have settled; at most one a second where that takes long."""
    await infra.rule("r")
    for number in range(40):
        await infra.workload(f"u{number}")
    async with infra.controller(resync=None) as client:
        await eventually(lambda: said(infra, "Running")[2] == "0 of 40 companions run: 40 Pending")
        await eventually(lambda: client.counts["patchstatus workloads"] == 40)
        before, began = client.counts.copy(), time.monotonic()
        for number in range(40):
            await infra.set_status(f"r-u{number}", STARTED)
        await eventually(lambda: said(infra, "Running")[2] == "40 of 40 companions run")
        spent = client.counts - before
        assert spent.pop("patchstatus tenantworkloadrules") <= 2 + time.monotonic() - began
        assert not spent
