"""Messages and JSON of rules, their status and workloads say the same."""

from __future__ import annotations

from typing import Any

import pytest

from app.tenancy.messages import (
    MessageError,
    canonical,
    data_of_spec,
    rule_message,
    spec_of_data,
    spec_of_workload,
    status_json,
    update_of_spec,
)
from app.tenancy.proto.universe.workload.v1 import workload_pb2, workload_rule_pb2

SPEC: dict[str, Any] = {
    "resourceType": "v1/Pod",
    "workloadTerms": [
        {
            "matchExpressions": [
                {"key": "metadata.resourceName", "operator": "NotIn", "values": ["a", "b"]},
                {"key": "state.extra.labels.foo", "operator": "Exists"},
                {"key": "state.nodeName", "operator": "DoesNotExist"},
            ]
        },
        {"matchExpressions": [{"key": "state.ready", "operator": "In", "values": ["true"]}]},
    ],
    "workloadInfoInject": [{"workloadKey": "@", "asAnnotation": {"name": "all"}}],
    "dpuSelectionPolicy": "SameNode",
    "template": {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "ü"}]}},
}
WORKLOAD: dict[str, Any] = {
    "metadata": {
        "id": "0a7c",
        "orchestrator": "kubernetes",
        "resourceType": "v1/Pod",
        "resourceName": "p",
        "resourceNamespace": "default",
    },
    "state": {"nodeName": "host-a", "ready": False, "extra": {"labels": {"a/b": ""}, "annotations": {"x": '{"é": 1}'}}},
}


def test_a_rule_comes_back_as_it_was() -> None:
    assert spec_of_data(data_of_spec(SPEC)) == SPEC


def test_an_empty_policy_is_any_and_nothing_to_inject_is_left_out() -> None:
    data = data_of_spec({**SPEC, "workloadInfoInject": []})
    data.dpu_selection_policy = ""
    made = spec_of_data(data)
    assert made["dpuSelectionPolicy"] == "Any"
    assert "workloadInfoInject" not in made


@pytest.mark.parametrize(
    "spec", [{}, {"workloadTerms": "x", "template": 3}, {"workloadTerms": [{"matchExpressions": [7]}]}]
)
def test_what_has_the_wrong_type_is_left_out(spec: Any) -> None:
    assert spec_of_data(data_of_spec(spec))["template"] == {}


def test_another_orchestrator_is_refused() -> None:
    data = data_of_spec(SPEC)
    data.orchestrator_type = 2  # type: ignore[assignment]  # a number that the enum does not name
    with pytest.raises(MessageError, match="orchestrator_type"):
        spec_of_data(data)


@pytest.mark.parametrize(
    ("annotations", "observed", "shown"),
    [
        ({"berth.dev/rule-generation": "7"}, 2, 7),
        ({"berth.dev/rule-generation": "7"}, 1, 0),
        ({}, 1, 1),
        ({"berth.dev/rule-generation": "x"}, 2, 2),
    ],
)
def test_a_status_is_about_the_generation_of_the_tenants_rule(annotations: Any, observed: int, shown: int) -> None:
    metadata = {"name": "r", "namespace": "tenant-t", "generation": 2, "annotations": annotations}
    message = rule_message({"metadata": metadata, "spec": SPEC, "status": {"observedGeneration": observed}})
    assert message.status.observed_generation == shown


def test_a_status_becomes_that_of_the_tenants_rule() -> None:
    condition = workload_rule_pb2.RuleCondition(
        type="Ready", status="True", reason="R", message="m", last_transition_time="2026-01-01T00:00:00Z"
    )
    message = workload_rule_pb2.RuleStatus(
        result="success", message="m", observed_generation=4, matched=2, created=1, conditions=[condition]
    )
    assert status_json(message) == {
        "result": "success",
        "message": "m",
        "observedGeneration": 4,
        "matched": 2,
        "created": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "R",
                "message": "m",
                "observedGeneration": 4,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }


def test_a_workload_comes_back_as_it_was() -> None:
    assert spec_of_workload(update_of_spec(WORKLOAD).update) == WORKLOAD


def test_maps_of_a_workload_are_never_missing() -> None:
    message = update_of_spec(WORKLOAD).update
    message.state.ClearField("extra")
    assert spec_of_workload(message)["state"]["extra"] == {"labels": {}, "annotations": {}}
    sent = update_of_spec({**WORKLOAD, "state": {}}).update
    assert set(sent.state.extra.fields) == {"labels", "annotations"}
    assert sent.state.extra.fields["labels"].WhichOneof("kind") == "struct_value"


def test_a_message_without_anything_is_refused_with_every_problem() -> None:
    with pytest.raises(MessageError) as refused:
        spec_of_workload(workload_pb2.Workload())
    assert len(refused.value.problems) == 2


def test_canonical_text_has_an_order() -> None:
    assert canonical({"b": 1, "a": {"d": "ü", "c": None}}) == '{"a":{"c":null,"d":"ü"},"b":1}'.encode()
