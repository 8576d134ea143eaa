"""WorkloadRules of the tenant cluster against the rules at the gateway, and their statuses."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import grpc
import pytest

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.tenancy.messages import data_of_spec
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.wire import JSON
from app.workloads.model import WORKLOAD_RULES
from tests.integration.tenancy.agent.conftest import Behind, Refusing, Runner, Tenant
from tests.integration.tenancy.agent.fakegateway import FakeGateway
from tests.support.waiting import PATIENCE, eventually

WHY = "the gateway cannot be reached: unavailable: "
READY = [pb.RuleCondition(type="Ready", status="True", reason="Matched", last_transition_time="2026-01-01T00:00:00Z")]


async def test_a_rule_is_sent_with_its_generation_and_owner(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    made = await tenant.rule("r1")
    await agents.start()
    await eventually(lambda: "r1" in fake.rules)
    assert fake.rules["r1"] == pb.WorkloadRule(
        id="r1", data=data_of_spec(made["spec"]), owner="agent", generation=made["metadata"]["generation"]
    )


async def test_a_change_is_sent_and_an_unchanged_rule_is_not(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.rule("r1")
    await agents.start(resync_seconds=0.1)
    await eventually(lambda: "r1" in fake.rules)
    await tenant.patch(WORKLOAD_RULES, "r1", {"spec": {"dpuSelectionPolicy": "SameNode"}})
    await eventually(lambda: fake.rules["r1"].data.dpu_selection_policy == "SameNode")
    assert fake.rules["r1"].generation == 2
    await asyncio.sleep(0.5)
    assert fake.calls["UpdateRule"] == 2


async def test_a_gateway_that_makes_something_else_of_a_rule_is_not_asked_for_ever(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    """What it answered to the update is as good as what was sent."""
    fake.template = b'{"other":1}'
    await tenant.rule("r1")
    await agents.start(resync_seconds=0.1)
    await eventually(lambda: "r1" in fake.rules and fake.rules["r1"].data.rule_template == b'{"other":1}')
    await asyncio.sleep(0.5)
    assert fake.calls["UpdateRule"] == 1


async def test_what_is_changed_or_removed_at_the_gateway_is_put_right(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    await tenant.rule("r1")
    await agents.start()
    await eventually(lambda: "r1" in fake.rules)
    want = fake.rules["r1"].data
    fake.drop_rule("r1")
    await eventually(lambda: "r1" in fake.rules)
    fake.put_rule(pb.WorkloadRule(id="r1", owner="agent", generation=1))
    await eventually(lambda: fake.rules["r1"].data == want)
    fake.put_rule(pb.WorkloadRule(id="r1", data=want, owner="agent", generation=7))
    await eventually(lambda: fake.rules["r1"].generation == 1)


async def test_a_removed_rule_goes(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.rule("r1")
    await tenant.rule("r2")
    await agents.start()
    await eventually(lambda: set(fake.rules) == {"r1", "r2"})
    await tenant.remove(WORKLOAD_RULES, "r1")
    await eventually(lambda: set(fake.rules) == {"r2"})


async def test_a_rule_that_is_being_deleted_is_wanted_no_more(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    await tenant.rule("r1")
    await tenant.patch(WORKLOAD_RULES, "r1", {"metadata": {"finalizers": ["example.com/held"]}})
    await agents.start()
    await eventually(lambda: set(fake.rules) == {"r1"})
    await tenant.remove(WORKLOAD_RULES, "r1")
    await eventually(lambda: not fake.rules)


async def test_rules_removed_while_the_agent_was_down_go(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.rule("r1")
    await tenant.rule("r2")
    async with agents.while_running():
        await eventually(lambda: set(fake.rules) == {"r1", "r2"})
    await tenant.remove(WORKLOAD_RULES, "r1")
    await agents.start()
    await eventually(lambda: set(fake.rules) == {"r2"})


async def test_rules_that_others_keep_are_left_alone(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    """Neither deleted nor taken over; a WorkloadRule of that name says so."""
    theirs = pb.WorkloadRule(id="theirs", owner="api", generation=7)
    fake.rules["theirs"] = theirs
    await tenant.rule("r1")
    await agents.start(resync_seconds=0.1)
    await eventually(lambda: "r1" in fake.rules)
    await tenant.rule("theirs")

    async def refused() -> bool:
        return await tenant.result(WORKLOAD_RULES, "theirs") == "error"

    await eventually(refused)
    assert "kept by 'api'" in (await tenant.status(WORKLOAD_RULES, "theirs"))["message"]
    await tenant.remove(WORKLOAD_RULES, "theirs")
    await asyncio.sleep(0.3)
    assert fake.rules["theirs"] == theirs


async def test_nothing_is_deleted_before_the_rules_are_known(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    fake.rules["r1"] = pb.WorkloadRule(id="r1", owner="agent", generation=1)
    client = Refusing(tenant.client, WORKLOAD_RULES)
    agent, _ = await agents.start(ready=False, client=client, resync_seconds=0.1)
    await eventually(lambda: {line.partition(":")[0] for line in agent.waiting()} == {"workloadrules"})
    await asyncio.sleep(0.3)
    assert fake.calls["DeleteRule"] == 0
    client.resources.clear()
    await eventually(lambda: not fake.rules)


async def test_nothing_is_deleted_before_the_gateway_has_told_everything(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    """And nothing is sent, for it may be there already."""
    fake.telling.clear()
    fake.rules["gone"] = pb.WorkloadRule(id="gone", owner="agent", generation=1)
    await tenant.rule("r1")
    await agents.start(ready=False)
    await eventually(lambda: fake.calls["WatchRules"])
    await asyncio.sleep(0.3)
    assert fake.calls["DeleteRule"] == fake.calls["UpdateRule"] == 0
    fake.telling.set()
    await eventually(lambda: set(fake.rules) == {"r1"})


async def test_the_gateways_status_is_written_back(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.rule("r1")
    await agents.start()
    await eventually(lambda: "r1" in fake.rules)
    fake.set_status("r1", result="success", matched=2, created=1, conditions=READY)

    async def shown() -> bool:
        return await tenant.status(WORKLOAD_RULES, "r1") == {
            "result": "success",
            "message": "",
            "observedGeneration": 1,
            "matched": 2,
            "created": 1,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Matched",
                    "message": "",
                    "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
        }

    await eventually(shown)


async def test_a_status_about_an_older_spec_is_not_shown(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.rule("r1")
    await agents.start()
    await eventually(lambda: "r1" in fake.rules)
    rule = pb.WorkloadRule()
    rule.CopyFrom(fake.rules["r1"])
    rule.status.CopyFrom(pb.RuleStatus(result="success", observed_generation=0))
    fake.put_rule(rule)
    await tenant.rule("r2")
    await eventually(lambda: "r2" in fake.rules)
    assert await tenant.status(WORKLOAD_RULES, "r1") == {}


async def test_a_status_is_written_only_where_it_changes_and_restored_where_it_was_edited(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    await tenant.rule("r1")
    await agents.start(resync_seconds=0.1)
    await eventually(lambda: "r1" in fake.rules)
    fake.set_status("r1", result="success", conditions=READY)

    async def success() -> bool:
        return await tenant.result(WORKLOAD_RULES, "r1") == "success"

    await eventually(success)
    version = (await tenant.get(WORKLOAD_RULES, "r1") or {})["metadata"]["resourceVersion"]
    await asyncio.sleep(0.5)
    assert (await tenant.get(WORKLOAD_RULES, "r1") or {})["metadata"]["resourceVersion"] == version
    await tenant.patch(WORKLOAD_RULES, "r1", {"status": {"result": "error"}}, subresource="status")
    await eventually(success)


async def test_a_refusal_is_shown_and_passes_with_its_cause(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    fake.fail["UpdateRule"] = grpc.StatusCode.INVALID_ARGUMENT, "spec.template: hostNetwork is not allowed"
    await tenant.rule("r1")
    await agents.start()

    async def refused() -> bool:
        return await tenant.result(WORKLOAD_RULES, "r1") == "error"

    await eventually(refused)
    status = await tenant.status(WORKLOAD_RULES, "r1")
    assert status["message"] == "spec.template: hostNetwork is not allowed"
    assert status["observedGeneration"] == 1
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "False", "InvalidArgument")
    await asyncio.sleep(0.3)
    assert fake.calls["UpdateRule"] == 1, "a refusal is asked again only when something changes, and at resync"
    fake.fail.clear()
    await tenant.patch(WORKLOAD_RULES, "r1", {"spec": {"dpuSelectionPolicy": "SameNode"}})
    await eventually(lambda: "r1" in fake.rules)
    fake.set_status("r1", result="success", conditions=READY)

    async def success() -> bool:
        return await tenant.result(WORKLOAD_RULES, "r1") == "success"

    await eventually(success)


async def test_a_refusal_is_asked_again_at_resync(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    fake.fail["UpdateRule"] = grpc.StatusCode.FAILED_PRECONDITION, "quota"
    await tenant.rule("r1")
    await agents.start(resync_seconds=0.2)
    await eventually(lambda: fake.calls["UpdateRule"])
    fake.fail.clear()
    await eventually(lambda: "r1" in fake.rules)

    async def no_error() -> bool:
        return await tenant.result(WORKLOAD_RULES, "r1") == ""

    await eventually(no_error)


async def test_a_passing_fault_is_not_shown(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    fake.fail["UpdateRule"] = grpc.StatusCode.UNAVAILABLE, "later"
    await tenant.rule("r1")
    await agents.start(patience=PATIENCE)
    await eventually(lambda: fake.calls["UpdateRule"] >= 2)
    assert await tenant.status(WORKLOAD_RULES, "r1") == {}
    fake.fail.clear()
    await eventually(lambda: "r1" in fake.rules)


async def test_a_lasting_fault_is_shown(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    fake.fail["UpdateRule"] = grpc.StatusCode.UNAVAILABLE, "later"
    await tenant.rule("r1")
    await agents.start()

    async def shown() -> bool:
        return (await tenant.status(WORKLOAD_RULES, "r1")).get("message") == "gateway: unavailable: later"

    await eventually(shown)
    fake.fail.clear()
    await eventually(lambda: "r1" in fake.rules)


async def test_a_gateway_that_cannot_be_reached_is_shown_on_what_waits_for_it(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    """What was heard of a rule before is not known any more; that it was refused stays true."""
    await tenant.rule("old")
    await tenant.rule("bad")
    async with agents.while_running(resync_seconds=3600):
        await eventually(lambda: {"old", "bad"} <= fake.rules.keys())
        fake.set_status("old", result="success", matched=3, conditions=READY)
        fake.set_status("bad", result="error", message="no such host", conditions=READY)

        async def success() -> bool:
            return await tenant.result(WORKLOAD_RULES, "old") == "success"

        async def refused() -> bool:
            return await tenant.result(WORKLOAD_RULES, "bad") == "error"

        await eventually(success)
        await eventually(refused)
        await fake.stop()
        await tenant.rule("new")

        async def shown() -> bool:
            return WHY in (await tenant.status(WORKLOAD_RULES, "new")).get("message", "")

        async def unknown() -> bool:
            return (await tenant.status(WORKLOAD_RULES, "old"))["conditions"][0]["status"] == "Unknown"

        await eventually(shown)
        await eventually(unknown)
        status = await tenant.status(WORKLOAD_RULES, "old")
        assert status["result"] == ""
        assert "matched" not in status
        assert re.match(rf"not connected since 20\d\d-\S+Z because {WHY}", status["message"])
        assert status["conditions"][0]["reason"] == "NotConnected"
        assert (await tenant.status(WORKLOAD_RULES, "bad"))["message"] == "no such host"
        fake.rules["old"].ClearField("status")
        await fake.start()
        await eventually(lambda: "new" in fake.rules)

        async def pending() -> bool:
            return (await tenant.status(WORKLOAD_RULES, "old"))["conditions"][0]["reason"] == "Pending"

        await eventually(pending)
        fake.set_status("old", result="success", matched=4, conditions=READY)
        await eventually(success)


async def test_two_agents_at_once_do_no_harm(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.pod("p1")
    await agents.start(resync_seconds=0.2)
    await agents.start(resync_seconds=0.2)
    for number in range(8):
        await tenant.rule(f"r{number}")
    await eventually(lambda: len(fake.rules) == 8)
    await asyncio.sleep(0.5)
    assert len(fake.rules) == 8
    assert fake.calls["DeleteRule"] == 0
    assert len(fake.workloads) == 1
    for number in range(4):
        await tenant.remove(WORKLOAD_RULES, f"r{number}")
    await eventually(lambda: set(fake.rules) == {"r4", "r5", "r6", "r7"})


async def test_a_rule_that_only_the_cache_lacks_is_not_deleted(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    """Another agent has just sent it: ours learns of it from the gateway before its own watch tells."""
    await tenant.rule("new")
    for name in ("new", "gone"):
        fake.rules[name] = pb.WorkloadRule(id=name, owner="agent", generation=1)
    await agents.start(client=Behind(tenant.client), resync_seconds=0.1)
    await eventually(lambda: set(fake.rules) == {"new"})
    await asyncio.sleep(0.3)
    assert set(fake.rules) == {"new"}


async def test_a_refusal_that_passes_by_itself_is_asked_about_again(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    """A namespace that is being deleted: nothing here changes when it is gone."""
    fake.fail["UpdateRule"] = grpc.StatusCode.FAILED_PRECONDITION, "namespace is being terminated"
    await tenant.rule("r1")
    await agents.start(resync_seconds=600.0)
    await eventually(lambda: fake.calls["UpdateRule"] >= 3)
    status = await tenant.status(WORKLOAD_RULES, "r1")
    assert (status["result"], status["message"]) == ("error", "namespace is being terminated")
    fake.fail.clear()
    await eventually(lambda: "r1" in fake.rules)
    calls = fake.calls["UpdateRule"]
    await asyncio.sleep(0.5)
    assert fake.calls["UpdateRule"] == calls


async def test_a_refusal_of_the_rule_itself_is_not_asked_about_again(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    fake.fail["UpdateRule"] = grpc.StatusCode.INVALID_ARGUMENT, "no"
    await tenant.rule("r1")
    await agents.start(resync_seconds=600.0)
    await eventually(lambda: fake.calls["UpdateRule"])
    await asyncio.sleep(0.5)
    assert fake.calls["UpdateRule"] == 1


async def test_a_status_that_is_meant_for_a_replaced_rule_is_not_written(
    tenant: Tenant, fake: FakeGateway, agents: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule was deleted and made anew between the answer of the gateway and the write."""
    replaced = await tenant.rule("r1")
    apply, outcomes = KubeClient.apply, list[int]()

    async def late(client: KubeClient, resource: Resource, name: str, body: JSON, **options: Any) -> JSON:
        if resource != WORKLOAD_RULES or outcomes:
            return await apply(client, resource, name, body, **options)
        assert body["metadata"]["uid"] == replaced["metadata"]["uid"]
        await tenant.remove(WORKLOAD_RULES, name)
        await tenant.rule(name, values=("other",))
        try:
            answer = await apply(client, resource, name, body, **options)
        except ApiError as error:
            outcomes.append(error.status)
            raise
        outcomes.append(200)
        return answer

    monkeypatch.setattr(KubeClient, "apply", late)
    await agents.start()
    await eventually(lambda: "r1" in fake.rules)
    fake.set_status("r1", result="success", matched=1, conditions=READY)
    await eventually(lambda: bool(outcomes))
    assert outcomes == [422]
    rule = await tenant.get(WORKLOAD_RULES, "r1") or {}
    assert rule["metadata"]["uid"] != replaced["metadata"]["uid"]
    await eventually(lambda: fake.rules["r1"].data == data_of_spec(rule["spec"]))
    fake.set_status("r1", result="success", matched=2, conditions=READY)

    async def shown() -> bool:
        return (await tenant.status(WORKLOAD_RULES, "r1")).get("matched") == 2

    await eventually(shown)
