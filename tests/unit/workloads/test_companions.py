"""The planned companion: its manifest, what makes it anew, what stands in its way; and its marks read back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from app.placement.model import PlacementOptions
from app.wire import encode_json
from app.workloads.companions.marks import companion_of, digest_of, is_queued
from app.workloads.companions.plan import ANNOTATION_LIMIT, Blueprint, Outcome, Planned, plan
from app.workloads.controller.stored import project_workload
from app.workloads.model import (
    COMPANION,
    INJECTED,
    RULE,
    RULE_NAME,
    SPEC_HASH,
    WORKLOAD,
    WORKLOAD_ID,
    Problem,
    RuleKind,
    Waiting,
)
from app.workloads.rules.keys import Facts
from app.workloads.rules.problems import parse_rule
from tests.support.workloads import SYSTEM, T1, rule, workload

JSON = dict[str, Any]


def planned(
    *, kind: RuleKind = "tenant", options: PlacementOptions | None = None, given: JSON | None = None, **more: Any
) -> Outcome:
    """What a rule makes of a workload; `given` is the Workload's."""
    body = rule("r", **more)
    body["metadata"] |= {"namespace": T1 if kind == "tenant" else SYSTEM, "generation": 1}
    if kind == "admin":
        body["spec"]["tenantMatch"] = ["*"]
    obj = given or workload("u1", node="host-a", labels={"foo": "bär"})
    obj["metadata"]["namespace"] = T1
    blueprint = Blueprint(parse_rule(body, kind=kind), options or PlacementOptions())
    made = project_workload(obj)
    return plan(blueprint, made, Facts(made.document))


def good(**more: Any) -> Planned:
    outcome = planned(**more)
    assert isinstance(outcome, Planned), outcome
    return outcome


def test_metadata_of_the_template_is_kept_but_for_what_is_ours_to_say() -> None:
    template = rule("r")["spec"]["template"]
    template["metadata"] = {"labels": {"l": "1"}, "annotations": {"a": "1"}, "name": "other", "generateName": "x"}
    metadata = good(template=template, kind="admin").manifest["metadata"]
    assert metadata["labels"] == {"l": "1", COMPANION: "admin", WORKLOAD_ID: "u1"}
    assert set(metadata) == {"name", "namespace", "labels", "annotations"}
    assert (metadata["name"], metadata["namespace"]) == ("r-tenant-tenant1-u1", SYSTEM)
    assert set(metadata["annotations"]) == {"a", RULE_NAME, RULE, WORKLOAD, SPEC_HASH, INJECTED}


def test_injected_values_are_written_as_the_api_says_and_win_over_the_template() -> None:
    template = rule("r")["spec"]["template"] | {"metadata": {"annotations": {"node": "t", "none": "t"}}}
    inject = {
        "node": "state.nodeName",
        "labels": "state.extra.labels",
        "ready": "state.ready",
        "none": "state.extra.missing",
        "lost": "state.missing",
        "all": "@",
    }
    annotations = good(template=template, inject=inject).manifest["metadata"]["annotations"]
    assert annotations["node"] == "host-a"
    assert annotations["labels"] == '{"foo":"bär"}'
    assert annotations["ready"] == "true"
    assert annotations["none"] == "t"
    assert "lost" not in annotations
    assert json.loads(annotations["all"])["metadata"]["id"] == "u1"
    assert json.loads(annotations[INJECTED]) == ["all", "labels", "node", "ready"]


def test_hash_changes_with_what_cannot_be_changed_in_place_and_with_nothing_else() -> None:
    first = good().spec_hash
    other_node = workload("u1", node="host-b", labels={"x": "y"})
    assert good(match=("metadata.resourceName", ["pod-u1"])).spec_hash == first
    assert good(inject={"node": "state.nodeName"}).spec_hash == first
    assert good(given=other_node).spec_hash == first
    label = PlacementOptions(tenant_node_label="other")
    same_node = good(policy="SameNode").spec_hash
    hashes = [
        first,
        good(image="nginx:2").spec_hash,
        good(template=rule("r")["spec"]["template"] | {"metadata": {"labels": {"a": "b"}}}).spec_hash,
        good(options=label).spec_hash,
        same_node,
        good(policy="SameNode", given=other_node).spec_hash,
    ]
    assert len(set(hashes)) == len(hashes)


def test_admin_companions_are_not_confined_to_a_tenant() -> None:
    assert "affinity" not in good(kind="admin").manifest["spec"]
    assert "berth.dev/tenant" in json.dumps(good().manifest["spec"])


def test_the_host_that_a_tenant_names_leads_no_admin_rule_to_another_tenants_dpu() -> None:
    """The name of the node is the tenant's own word."""
    spec = json.dumps(good(kind="admin", policy="SameNode").manifest["spec"]["affinity"])
    assert '"provisioning.dpu.nvidia.com/host", "operator": "In", "values": ["host-a"]' in spec
    assert '"berth.dev/tenant", "operator": "In", "values": ["tenant1"]' in spec


def test_same_node_without_a_node_waits() -> None:
    outcome = planned(policy="SameNode", given=workload("u1"))
    assert isinstance(outcome, Waiting)
    assert outcome.reason == "NoNode"


@pytest.mark.parametrize(
    ("reason", "more"),
    [
        ("InvalidTemplate", {"spec": {"hostNetwork": True}}),
        ("PlacementContradiction", {"spec": {"nodeSelector": {"berth.dev/tenant": "tenant2"}}}),
        (
            "PlacementContradiction",
            {"policy": "SameNode", "spec": {"nodeSelector": {"provisioning.dpu.nvidia.com/host": "host-b"}}},
        ),
        ("InvalidHost", {"policy": "SameNode", "given": workload("u1", node="h" * 64)}),
    ],
)
def test_problems_have_a_reason(reason: str, more: JSON) -> None:
    outcome = planned(**more)
    assert isinstance(outcome, Problem)
    assert outcome.reason == reason
    assert outcome.message


def test_annotations_may_fill_the_limit_and_not_a_byte_more() -> None:
    def sized(length: int) -> Outcome:
        given = workload("u1", labels={"l": "ä" + "x" * length})
        return planned(inject={"v": "state.extra.labels.l"}, given=given)

    annotations = good(inject={"v": "state.extra.labels.l"}, given=workload("u1", labels={"l": "ä"})).manifest[
        "metadata"
    ]["annotations"]
    room = ANNOTATION_LIMIT - sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items())
    assert isinstance(sized(room), Planned)
    outcome = sized(room + 1)
    assert isinstance(outcome, Problem)
    assert outcome.reason == "AnnotationTooLarge"


def test_planning_changes_nothing_that_is_shared() -> None:
    body = rule("r", inject={"n": "state.nodeName"})
    body["metadata"] |= {"namespace": T1}
    blueprint = Blueprint(parse_rule(body, kind="tenant"), PlacementOptions())
    before = encode_json([blueprint.spec, blueprint.labels, blueprint.annotations])
    given = workload("u1", node="host-a")
    given["metadata"]["namespace"] = T1
    made = project_workload(given)
    for _ in range(2):
        outcome = plan(blueprint, made, Facts(made.document))
    assert isinstance(outcome, Planned)
    assert encode_json([blueprint.spec, blueprint.labels, blueprint.annotations]) == before


def as_stored(outcome: Planned) -> JSON:
    pod: JSON = json.loads(encode_json(outcome.manifest))
    pod["metadata"] |= {"uid": "uid-1", "resourceVersion": "7"}
    return pod


@pytest.mark.parametrize("kind", ["tenant", "admin"])
def test_marks_are_read_back_as_they_were_written(kind: RuleKind) -> None:
    outcome = good(kind=kind, inject={"n": "state.nodeName"})
    companion = companion_of(as_stored(outcome))
    assert companion.key == outcome.key
    assert companion.rule == outcome.rule
    assert companion.workload == (T1, "workload-u1")
    assert (companion.spec_hash, companion.digest) == (outcome.spec_hash, outcome.digest)
    assert (companion.injected, companion.version) == (("n",), 7)
    assert not companion.ending
    assert not companion.lost


def test_digest_tells_how_the_injected_annotations_really_are() -> None:
    outcome = good(inject={"n": "state.nodeName"})
    for change in ({"n": "other"}, {"n": None}, {INJECTED: "[]"}, {INJECTED: "no list"}, {INJECTED: None}):
        pod = as_stored(outcome)
        pod["metadata"]["annotations"] |= change
        pod["metadata"]["annotations"] = {k: v for k, v in pod["metadata"]["annotations"].items() if v is not None}
        assert companion_of(pod).digest != outcome.digest, change
    pod = as_stored(outcome)
    pod["metadata"]["annotations"]["mine"] = "x"
    assert companion_of(pod).digest == outcome.digest
    assert digest_of({"a": "1", "b": "2"}) == digest_of({"b": "2", "a": "1"})


def test_nothing_injected_and_no_list_are_told_apart() -> None:
    outcome = good()
    pod = as_stored(outcome)
    assert companion_of(pod).digest == outcome.digest
    del pod["metadata"]["annotations"][INJECTED]
    assert companion_of(pod).digest != outcome.digest


@pytest.mark.parametrize(
    ("phase", "reason", "policy", "lost"),
    [
        ("Failed", "Evicted", "Always", True),
        ("Failed", "", "Always", True),
        ("Failed", "NodeLost", "OnFailure", True),
        ("Failed", "", "Never", False),
        ("Failed", "Evicted", "Never", True),
        ("Failed", "DeadlineExceeded", "Always", False),
        ("Succeeded", "", "OnFailure", False),
        ("Running", "", "Always", False),
    ],
)
def test_lost_is_what_did_not_end_by_itself(phase: str, reason: str, policy: str, lost: bool) -> None:  # noqa: FBT001
    pod = as_stored(good())
    pod["spec"]["restartPolicy"] = policy
    pod["status"] = {"phase": phase} | ({"reason": reason} if reason else {})
    assert companion_of(pod).lost is lost


def test_companion_values_are_small() -> None:
    assert all(field.name != "manifest" for field in dataclasses.fields(companion_of(as_stored(good()))))


@pytest.mark.parametrize(
    ("spec", "queued"), [({}, True), ({"schedulerName": ""}, True), ({"schedulerName": "a"}, False)]
)
def test_an_empty_name_is_that_of_the_default_scheduler(spec: JSON, *, queued: bool) -> None:
    assert is_queued({"metadata": {}, "spec": spec}) is queued
