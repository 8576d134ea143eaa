"""Rules of tenants and of the admin through the gateway, and their watch."""

from __future__ import annotations

import base64
import json
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as admin_pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.workloads.model import ADMIN_RULES, SYSTEM_NAMESPACE, TENANT_RULES
from tests.support.gateway_calls import POD, admin_rule, admin_rules, data, fails, rule, rules
from tests.support.tenancy import Door, Infra, Start

CODE = grpc.StatusCode
NS = "tenant-tenant1"
TEMPLATE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "nginx"},
    "spec": {"containers": [{"name": "nginx", "image": "nginx:1.14.2", "ports": [{"containerPort": 80}]}]},
}
WALK_THROUGH = {
    "rule": {
        "id": "adminrule1",
        "tenant_match": ["tenant1", "tenant2"],
        "data": {
            "orchestrator_type": 1,
            "resource_type": "v1/Pod",
            "dpu_selection_policy": "SameNode",
            "workload_terms": [
                {"match_expressions": [{"key": "metadata.resourceNamespace", "operation": 1, "values": ["default"]}]}
            ],
            "workload_info_inject": [{"key": "@", "as_annotation": {"name": "full-workload-info"}}],
            "rule_template": base64.b64encode(json.dumps(TEMPLATE, indent=2).encode()).decode(),
        },
    }
}


async def stored(infra: Infra, name: str = "rule1", *, resource: Any = TENANT_RULES, namespace: str = NS) -> Any:
    return await infra.client.get(resource, name, namespace=namespace)


async def test_the_request_of_the_walk_through_works_as_written(door: Door, infra: Infra) -> None:
    request = json_format.Parse(json.dumps(WALK_THROUGH), admin_pb.CreateRequest())
    answer = await admin_rules(door.admin()).Create(request)
    assert answer.rule.id == "adminrule1"
    found = await stored(infra, "adminrule1", resource=ADMIN_RULES, namespace=SYSTEM_NAMESPACE)
    assert found["spec"] == {
        "tenantMatch": ["tenant1", "tenant2"],
        "resourceType": "v1/Pod",
        "dpuSelectionPolicy": "SameNode",
        "workloadTerms": [
            {"matchExpressions": [{"key": "metadata.resourceNamespace", "operator": "In", "values": ["default"]}]}
        ],
        "workloadInfoInject": [{"workloadKey": "@", "asAnnotation": {"name": "full-workload-info"}}],
        "template": TEMPLATE,
    }
    assert answer.rule.data.rule_template == json.dumps(TEMPLATE, sort_keys=True, separators=(",", ":")).encode()
    await admin_rules(door.admin()).Delete(json_format.Parse('{"id": "adminrule1"}', admin_pb.DeleteRequest()))
    assert await infra.names(ADMIN_RULES, SYSTEM_NAMESPACE) == set()


async def test_the_life_of_an_admin_rule(door: Door) -> None:
    stub = admin_rules(door.admin())
    await stub.Update(admin_pb.UpdateRequest(rule=admin_rule("a")))
    assert (await fails(stub.Create(admin_pb.CreateRequest(rule=admin_rule("a"))))).code() is CODE.ALREADY_EXISTS
    await stub.Update(admin_pb.UpdateRequest(rule=admin_rule("a", tenants=("*",))))
    assert list((await stub.Get(admin_pb.GetRequest(id="a"))).rule.tenant_match) == ["*"]
    assert [made.id for made in (await stub.List(admin_pb.ListRequest())).rules] == ["a"]
    await stub.Delete(admin_pb.DeleteRequest(id="a"))
    for call in (stub.Get(admin_pb.GetRequest(id="a")), stub.Delete(admin_pb.DeleteRequest(id="a"))):
        assert (await fails(call)).code() is CODE.NOT_FOUND


async def test_the_life_of_a_tenants_rule(door: Door, infra: Infra) -> None:
    stub, other = rules(door.tenant("tenant1")), rules(door.tenant("tenant2"))
    await stub.Create(pb.CreateWorkloadRuleRequest(rule=rule(generation=3)))
    found = await stored(infra)
    assert found["metadata"]["labels"] == {"berth.dev/rule-owner": "api"}
    assert found["metadata"]["annotations"] == {"berth.dev/rule-generation": "3"}
    again = await fails(stub.Create(pb.CreateWorkloadRuleRequest(rule=rule())))
    assert again.code() is CODE.ALREADY_EXISTS
    got = (await stub.Get(pb.GetWorkloadRuleRequest(id="rule1"))).rule
    assert (got.owner, got.generation, got.data.workload_terms) == ("api", 3, data().workload_terms)
    assert [made.id for made in (await stub.List(pb.ListWorkloadRulesRequest())).rules] == ["rule1"]
    assert list((await other.List(pb.ListWorkloadRulesRequest())).rules) == []
    assert (await fails(other.Get(pb.GetWorkloadRuleRequest(id="rule1")))).code() is CODE.NOT_FOUND
    assert (await fails(other.Delete(pb.DeleteWorkloadRuleRequest(id="rule1")))).code() is CODE.NOT_FOUND
    await stub.Delete(pb.DeleteWorkloadRuleRequest(id="rule1"))
    assert (await fails(stub.Delete(pb.DeleteWorkloadRuleRequest(id="rule1")))).code() is CODE.NOT_FOUND
    assert (await fails(stub.Get(pb.GetWorkloadRuleRequest(id="rule1")))).code() is CODE.NOT_FOUND


async def test_an_update_creates_changes_and_leaves_alone(door: Door, infra: Infra) -> None:
    """The generation moves with the spec alone; an equal rule is not written at all."""
    stub = rules(door.tenant("tenant1"))
    await stub.Update(pb.UpdateWorkloadRuleRequest(rule=rule(owner="agent", generation=1)))
    first = await stored(infra)
    await stub.Update(pb.UpdateWorkloadRuleRequest(rule=rule(owner="agent", generation=1)))
    assert await stored(infra) == first
    await stub.Update(pb.UpdateWorkloadRuleRequest(rule=rule(owner="agent", generation=2)))
    second = await stored(infra)
    assert second["metadata"]["generation"] == 1
    assert second["metadata"]["annotations"]["berth.dev/rule-generation"] == "2"
    changed = rule(owner="agent", generation=3, data=data(namespace="other"))
    await stub.Update(pb.UpdateWorkloadRuleRequest(rule=changed))
    third = await stored(infra)
    assert third["metadata"]["generation"] == 2
    assert third["metadata"]["uid"] == first["metadata"]["uid"]


async def test_a_rule_is_changed_by_its_keeper_alone(door: Door, infra: Infra) -> None:
    stub = rules(door.tenant("tenant1"))
    await stub.Create(pb.CreateWorkloadRuleRequest(rule=rule(owner="api")))
    error = await fails(stub.Update(pb.UpdateWorkloadRuleRequest(rule=rule(owner="agent", data=data(namespace="x")))))
    assert error.code() is CODE.FAILED_PRECONDITION
    assert "kept by 'api'" in (error.details() or "")
    foreign = await stored(infra)
    foreign["metadata"] = {"name": "by-hand"}
    await infra.client.create(TENANT_RULES, foreign, namespace=NS)
    for call in (
        stub.Update(pb.UpdateWorkloadRuleRequest(rule=rule("by-hand"))),
        stub.Delete(pb.DeleteWorkloadRuleRequest(id="by-hand")),
    ):
        assert (await fails(call)).code() is CODE.FAILED_PRECONDITION


async def test_all_problems_of_a_rule_come_in_one_message(door: Door, infra: Infra) -> None:
    bad = rule("Bad_Name", owner="no label value!")
    bad.data.workload_terms[0].match_expressions[0].operation = 9
    bad.data.workload_terms[0].match_expressions[0].key = "a..b"
    bad.data.dpu_selection_policy = "Elsewhere"
    bad.data.rule_template = json.dumps({**POD, "spec": {**POD["spec"], "hostNetwork": True}}).encode()
    error = await fails(rules(door.tenant("tenant1")).Create(pb.CreateWorkloadRuleRequest(rule=bad)))
    assert error.code() is CODE.INVALID_ARGUMENT
    for part in ("rule.id", "rule.owner", "operator", ".key", "Elsewhere", "hostNetwork"):
        assert part in (error.details() or "")
    assert await infra.names(TENANT_RULES, NS) == set()


@pytest.mark.parametrize(
    "template", [b"", b"not json", b"[]", b'"text"', b"\xff\xfe", b"[" * 60_000, b'{"a":' * 10_000, b"{}"]
)
async def test_garbage_templates_are_refused(door: Door, template: bytes) -> None:
    made = rule(data=data(template))
    error = await fails(rules(door.tenant("tenant1")).Create(pb.CreateWorkloadRuleRequest(rule=made)))
    assert error.code() is CODE.INVALID_ARGUMENT
    assert "rule_template" in (error.details() or "")


async def test_a_rule_that_is_too_large_is_refused(door: Door) -> None:
    stub = rules(door.tenant("tenant1"))
    fits = {**POD, "metadata": {"annotations": {"big": "x" * 50_000}}}
    await stub.Create(pb.CreateWorkloadRuleRequest(rule=rule(data=data(fits))))
    large = {**POD, "metadata": {"annotations": {"big": "x" * 66_000}}}
    error = await fails(stub.Create(pb.CreateWorkloadRuleRequest(rule=rule("large", data=data(large)))))
    assert error.code() is CODE.INVALID_ARGUMENT
    assert "at most" in (error.details() or "")


def placed(**spec: Any) -> Any:
    return data({**POD, "spec": {**POD["spec"], **spec}})


OTHERS_SELECTOR = {"nodeSelector": {"berth.dev/tenant": "tenant2"}}
OTHERS_TERM = {"matchExpressions": [{"key": "berth.dev/tenant", "operator": "In", "values": ["tenant2"]}]}
OTHERS_AFFINITY = {
    "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [OTHERS_TERM]}}
    }
}


@pytest.mark.parametrize("spec", [OTHERS_SELECTOR, OTHERS_AFFINITY], ids=["selector", "affinity"])
@pytest.mark.parametrize("method", ["Create", "Update"])
async def test_a_template_for_another_tenants_nodes_is_refused(
    door: Door, infra: Infra, spec: Any, method: str
) -> None:
    """Its companions could run nowhere; it is told with all else that is wrong."""
    stub = rules(door.tenant("tenant1"))
    request = getattr(pb, f"{method}WorkloadRuleRequest")(rule=rule(owner="no label value!", data=placed(**spec)))
    error = await fails(getattr(stub, method)(request))
    assert error.code() is CODE.INVALID_ARGUMENT
    for part in ("rule.owner", "rule.data.rule_template.spec.", "berth.dev/tenant", "'tenant1'"):
        assert part in (error.details() or "")
    assert await infra.names(TENANT_RULES, NS) == set()


async def test_a_template_for_the_tenants_own_nodes_is_stored_as_it_is(door: Door, infra: Infra) -> None:
    own = placed(nodeSelector={"berth.dev/tenant": "tenant1", "disk": "ssd"})
    await rules(door.tenant("tenant1")).Create(pb.CreateWorkloadRuleRequest(rule=rule(data=own)))
    assert (await stored(infra))["spec"]["template"] == json.loads(own.rule_template)
    made = admin_rule("a", data=placed(**OTHERS_SELECTOR))  # runs where its template says
    await admin_rules(door.admin()).Create(admin_pb.CreateRequest(rule=made))


async def test_without_confinement_a_template_may_name_any_nodes(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(tenant_node_label="")
    made = rule(data=placed(**OTHERS_SELECTOR))
    await rules(door.tenant("tenant1")).Create(pb.CreateWorkloadRuleRequest(rule=made))


async def test_an_admins_template_may_use_the_host(door: Door) -> None:
    made = admin_rule("a", data=data({**POD, "spec": {**POD["spec"], "hostNetwork": True}}))
    await admin_rules(door.admin()).Create(admin_pb.CreateRequest(rule=made))


async def test_an_admin_rule_for_nobody_is_refused(door: Door) -> None:
    error = await fails(admin_rules(door.admin()).Create(admin_pb.CreateRequest(rule=admin_rule("a", tenants=()))))
    assert error.code() is CODE.INVALID_ARGUMENT
    assert "tenantMatch" in (error.details() or "")


async def test_names_cannot_climb_out_of_a_path(door: Door) -> None:
    for name in ("../x", "a/b", "", "x" * 300):
        error = await fails(rules(door.tenant("tenant1")).Get(pb.GetWorkloadRuleRequest(id=name)))
        assert error.code() is CODE.INVALID_ARGUMENT


async def test_a_watch_gives_what_is_there_then_what_changes(door: Door, infra: Infra) -> None:
    stub = rules(door.tenant("tenant1"))
    await stub.Create(pb.CreateWorkloadRuleRequest(rule=rule("before", owner="agent", generation=7)))
    while not door.sources.rules.get(NS, "before"):
        await door.sources.rules.wait_synced()
        await rules(door.tenant("tenant1")).List(pb.ListWorkloadRulesRequest())
    watch = stub.Watch(pb.WatchWorkloadRulesRequest())
    assert (await watch.read()).rule.id == "before"
    assert (await watch.read()).synced
    status = {
        "result": "error",
        "message": "no DPU",
        "observedGeneration": 1,
        "matched": 2,
        "created": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "X",
                "message": "no DPU",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 1,
            }
        ],
    }
    await infra.client.patch(
        TENANT_RULES, "before", {"status": status}, patch_type="merge", namespace=NS, subresource="status"
    )
    seen = (await watch.read()).rule
    assert (seen.status.result, seen.status.message, seen.status.matched) == ("error", "no DPU", 2)
    assert seen.status.observed_generation == 7
    assert [entry.type for entry in seen.status.conditions] == ["Ready"]
    # A new spec: the status that stands is about the old one.
    changed = rule("before", owner="agent", generation=8, data=data(namespace="x"))
    await stub.Update(pb.UpdateWorkloadRuleRequest(rule=changed))
    seen = (await watch.read()).rule
    assert (seen.generation, seen.status.observed_generation) == (8, 0)
    # Other tenants' rules are not shown.
    await rules(door.tenant("tenant2")).Create(pb.CreateWorkloadRuleRequest(rule=rule("others")))
    await stub.Delete(pb.DeleteWorkloadRuleRequest(id="before"))
    assert (await watch.read()).deleted == "before"
    watch.cancel()
