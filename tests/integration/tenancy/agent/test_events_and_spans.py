"""What the agent tells beside statuses: Events on what the user wrote, and spans that gateway and agent share."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import grpc
import pytest

from app.kube.events import EventRecorder
from app.kube.resources import EVENTS
from app.tenancy.proto.universe.workload.v1.workload_rule_pb2 import RuleCondition
from app.tracing.context import opened_spans
from app.workloads.model import TENANT_RULES, UVS_PODS, WORKLOAD_RULES
from tests.integration.tenancy.agent.conftest import Runner, Tenant, changed, options_for
from tests.integration.tenancy.agent.fakegateway import FakeGateway, write_files
from tests.integration.tenancy.agent.test_rule_sync import READY
from tests.integration.tenancy.agent.test_with_gateway import gateway_settings
from tests.support.otlp_receiver import Receiver
from tests.support.tenancy import Door, Infra, Pki, agent_kit
from tests.support.waiting import PATIENCE, eventually


@contextlib.asynccontextmanager
async def beside(*work: Any) -> Any:
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def told(tenant: Tenant, kind: str) -> list[tuple[str, str, str]]:
    page = await tenant.client.list_page(EVENTS, namespace="universe")
    found = [event for event in page.items if event["involvedObject"]["kind"] == kind]
    return [(event["type"], event["reason"], event["involvedObject"]["name"]) for event in found]


async def test_what_the_gateway_refuses_is_told_on_the_object(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    fake.fail["UpdateRule"] = grpc.StatusCode.INVALID_ARGUMENT, "spec.template: no"
    await tenant.rule("r1")
    await tenant.uvs(UVS_PODS, "p1", inner="other")
    recorder = EventRecorder(lambda: tenant.client, role="agent", instance="i")
    options = changed(agents.options, patience=PATIENCE)  # a gateway that answers late is no Event of this test
    agent = agent_kit(tenant.client, options=options, events=recorder)

    def count(kind: str, number: int) -> Any:
        async def check() -> bool:
            return len(await told(tenant, kind)) >= number

        return check

    async with beside(recorder.run(), agent.run()):
        await eventually(count(WORKLOAD_RULES.kind, 1))
        await eventually(count(UVS_PODS.kind, 1))
        fake.fail.clear()
        await tenant.patch(WORKLOAD_RULES, "r1", {"spec": {"dpuSelectionPolicy": "SameNode"}})
        await eventually(lambda: "r1" in fake.rules)
        fake.set_status("r1", result="success", conditions=READY)
        await eventually(count(WORKLOAD_RULES.kind, 2))
    assert sorted(await told(tenant, WORKLOAD_RULES.kind)) == [
        ("Normal", "Matched", "r1"),
        ("Warning", "InvalidArgument", "r1"),
    ]
    assert await told(tenant, UVS_PODS.kind) == [("Warning", "InvalidArgument", "p1")]


async def test_a_rule_that_can_never_match_is_told_where_its_author_is(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    await tenant.rule("r1")
    recorder = EventRecorder(lambda: tenant.client, role="agent", instance="i")
    agent = agent_kit(tenant.client, options=changed(agents.options, patience=PATIENCE), events=recorder)
    matched = RuleCondition(
        type="Matched", status="False", reason="ImpossibleKey", last_transition_time="2026-01-01T00:00:00Z"
    )

    async def is_told() -> bool:
        return await told(tenant, WORKLOAD_RULES.kind) == [("Warning", "ImpossibleKey", "r1")]

    async with beside(recorder.run(), agent.run()):
        await eventually(lambda: "r1" in fake.rules)
        fake.set_status("r1", result="success", message="no workload can match: why", conditions=[*READY, matched])
        await eventually(is_told)
    (event,) = (await tenant.client.list_page(EVENTS, namespace="universe")).items
    assert event["message"] == "no workload can match: why"
    assert (await tenant.status(WORKLOAD_RULES, "r1"))["result"] == "success"


async def test_a_call_of_the_agent_is_one_trace_on_both_sides(
    tenant: Tenant, infra: Infra, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams and health checks have no spans."""
    with Receiver().serving() as receiver:
        for name, value in receiver.environment.items():
            monkeypatch.setenv(name, value)
        await infra.add_tenant("tenant1")
        write_files(tmp_path, pki.ca, pki.tenant("tenant1"))
        stop = asyncio.Event()
        with opened_spans("pair") as spans:
            door = Door(infra.client, gateway_settings(pki), pki, spans=spans)
            async with beside(door.gateway.run(stop)):
                await eventually(lambda: not door.gateway.waiting())
                options = options_for(door.address, tmp_path)
                async with beside(agent_kit(tenant.client, options=options, calls=spans).run()):
                    await tenant.rule("r1")

                    async def stored() -> bool:
                        return await infra.names(TENANT_RULES, "tenant-tenant1") == {"r1"}

                    await eventually(stored)
                    await eventually(lambda: len([s for s in receiver.spans if s.name.endswith("/Update")]) == 2)
        client, server = sorted((s for s in receiver.spans if s.name.endswith("/Update")), key=lambda s: s.kind == 2)
        assert (client.name, server.name) == (
            "WorkloadRuleService/Update",
            "universe.workload.v1.WorkloadRuleService/Update",
        )
        assert (server.trace_id, server.parent, client.parent) == (client.trace_id, client.span_id, "")
        assert server.attributes["rpc.response.status_code"] == client.attributes["rpc.response.status_code"] == "OK"
        assert {s.name.rpartition("/")[2] for s in receiver.spans} <= {"Update", "List"}
