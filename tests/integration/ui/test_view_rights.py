"""The views of wings for a caller who may read some of what they rest on."""

from __future__ import annotations

from typing import Any

from app.kube.resources import EVENTS
from tests.integration.ui.test_callers import Files, files, page_for
from tests.integration.ui.test_reviews import event
from tests.integration.ui.test_trial import RULE, send
from tests.support.fabric import Fabric
from tests.support.sandbox import Sandboxed, sandboxed

__all__ = ["files", "sandboxed"]
JSON = dict[str, Any]


async def test_what_may_not_be_read_is_said_and_not_shown(sandboxed: Sandboxed, files: Files) -> None:
    fabric = Fabric(sandboxed)
    fabric.tenant("acme", "host-a", "host-b")
    fabric.dpu("hidden-dpu", "host-a", "acme")
    fabric.companion("hidden-companion", "acme", "hidden-dpu")
    fabric.rule("hidden-rule", "acme", matched=1)
    fabric.workload("hidden-workload", "acme", "web")
    fabric.attachment("default", "hidden-network", "nvidia.com/bf3")
    fabric.make(EVENTS, event("hidden", "2026-11-29T10:00:00Z", "hidden-message"))
    async with page_for(sandboxed, files) as callers:
        callers.grant("tina", resources=("tenants",))
        token = callers.token("tina")

        async def view(path: str) -> JSON:
            answer = await callers.page.get(f"/api/{path}", **token)
            assert answer.status == 200, answer.text
            assert "hidden-" not in answer.text
            return dict(answer.json)

        (tenant,) = (await view("tenants"))["page"]["rows"]
        assert tenant["cells"]["rules"] == "?"
        assert "tenantworkloadrules" in tenant["lines"][0]["text"]
        shown = await view("fabric")
        assert [host["name"] for host in shown["hosts"]] == ["host-a", "host-b"]
        assert any("nodes" in text for text in shown["summary"]["unread"])
        assert any("pods" in text for text in shown["summary"]["unread"])
        assert shown["hosts"][0]["problems"] == []
        for path in ("rules", "networks", "rmd", "claims"):
            assert "you have no right to list" in (await view(path))["choice"]["problem"]
        assert "events" in (await view("reviews"))["denials"]["unread"]
        tried = await send(callers.page, RULE, **token)
        assert tried.status == 200, tried.text
        assert tried.json["outcome"]["verdict"] == "would be admitted"
        assert "workloads" in tried.json["outcome"]["notes"][0]
        assert (await send(callers.page, RULE)).status == 401
