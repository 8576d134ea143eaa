"""The definitions of the stand-in for Kueue: accepted, with what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.devtools.kueue.definitions import KINDS, kueue_definitions
from app.kube.resources import Resource
from tests.integration.sandbox.test_crd_rules import CRDS
from tests.support.sandbox import Served

JSON = dict[str, Any]
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
OLDER = WORKLOADS.replace("v1beta2", "v1beta1")
NOW = "2026-01-01T00:00:00Z"
TEMPLATE: JSON = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
POD_SET: JSON = {"name": "main", "count": 2, "template": TEMPLATE}
BY_KUEUE: JSON = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
BY_CLUSTER: JSON = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}
ADMISSION: JSON = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "f"}, "count": 2}]}


@pytest.fixture(scope="module")
def kueue(served: Served) -> Iterator[Served]:
    """An API server with the kinds of Kueue."""
    definitions = kueue_definitions()
    for definition in definitions:
        served.define(definition)
    yield served
    for definition in definitions:
        served.request("DELETE", f"{CRDS}/{definition['metadata']['name']}")
        served.until(f"{CRDS}/{definition['metadata']['name']}", 404)


def make(kueue: Served, name: str, **spec: Any) -> str:
    """The path of a new Workload."""
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podSets": [POD_SET], "queueName": "q", **spec},
    }
    answer = kueue.request("POST", WORKLOADS, body)
    assert answer.status == 201, answer.body["message"]
    return f"{WORKLOADS}/{name}"


def patch(kueue: Served, path: str, body: JSON) -> Any:
    return kueue.request("PATCH", path, body, content_type="application/merge-patch+json")


def condition(kind: str, status: str = "True") -> JSON:
    return {"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": NOW}


def reserve(kueue: Served, path: str, *kinds: str) -> None:
    status = {"conditions": [condition(kind) for kind in ("QuotaReserved", *kinds)], "admission": ADMISSION}
    answer = patch(kueue, f"{path}/status", {"status": status})
    assert answer.status == 200, answer.body["message"]


@pytest.mark.parametrize("definition", kueue_definitions(), ids=lambda one: one["metadata"]["name"])
def test_a_definition_and_its_rules_are_accepted(served: Served, definition: JSON) -> None:
    answer = served.request("POST", f"{CRDS}?dryRun=All&fieldValidation=Strict", definition)
    assert answer.status == 201, answer.body["message"]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.plural)
def test_both_versions_are_served(kueue: Served, kind: Resource, version: str) -> None:
    path = f"/apis/kueue.x-k8s.io/{version}/{kind.plural}"
    answer = kueue.request("GET", path)
    assert (answer.status, answer.body["apiVersion"]) == (200, f"kueue.x-k8s.io/{version}")


def test_a_workload_has_defaults_and_keeps_its_template(kueue: Served) -> None:
    path = make(kueue, "defaults", podSets=[{"template": {"spec": {"containers": [], "newField": 1}}}])
    spec = kueue.request("GET", path).body["spec"]
    assert spec["active"] is True
    assert spec["podSets"] == [
        {"name": "main", "count": 1, "template": {"spec": {"containers": [], "newField": 1}}},
    ]


def test_both_versions_show_what_either_wrote(kueue: Served) -> None:
    source = "kueue.x-k8s.io/workloadpriorityclass"
    path = make(kueue, "versions", priorityClassRef=BY_KUEUE, priority=3)
    patched = patch(kueue, f"{OLDER}/versions", {"spec": {"priorityClassSource": source, "priorityClassName": "high"}})
    assert patched.status == 200, patched.body["message"]
    assert patched.body["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    spec = kueue.request("GET", path).body["spec"]
    assert spec["priorityClassRef"] == BY_KUEUE
    assert (spec["priorityClassSource"], spec["priorityClassName"]) == (source, "high")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"podSets": []}, "at least 1 items"),
        ({"podSets": [{**POD_SET, "name": f"p{n}"} for n in range(19)]}, "at most 18 items"),
        ({"podSets": [POD_SET, POD_SET]}, "Duplicate value"),
        ({"podSets": [{**POD_SET, "name": "Main"}]}, "should match"),
        ({"podSets": [{**POD_SET, "count": -1}]}, "greater than or equal to 0"),
        ({"podSets": [{**POD_SET, "minCount": 3}]}, "minCount should be positive and less or equal to count"),
        ({"podSets": [{"name": "main"}]}, "template: Required value"),
        ({"priorityClassRef": BY_KUEUE}, "priority should not be nil"),
        ({"priorityClassRef": {**BY_KUEUE, "kind": "PriorityClass"}, "priority": 1}, "only the WorkloadPriorityClass"),
        ({"priorityClassRef": {**BY_CLUSTER, "kind": BY_KUEUE["kind"]}, "priority": 1}, "only the PriorityClass kind"),
        ({"maximumExecutionTimeSeconds": 0}, "greater than or equal to 1"),
        ({"queueName": "Q"}, "should match"),
    ],
)
def test_a_workload_that_is_refused(kueue: Served, spec: JSON, said: str) -> None:
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "refused"},
        "spec": {"podSets": [POD_SET], **spec},
    }
    answer = kueue.request("POST", WORKLOADS, body)
    assert answer.status == 422
    assert said in answer.body["message"]


@pytest.mark.parametrize(
    ("before", "change", "said"),
    [
        ({}, {"queueName": "other"}, "queueName is immutable while workload quota reserved"),
        ({}, {"queueName": None}, "queueName is immutable"),
        ({}, {"podSets": [{**POD_SET, "count": 3}]}, "podSets is immutable while workload quota reserved"),
        ({}, {"podSets": [{**POD_SET, "name": "other"}]}, "podSets is immutable"),
        ({}, {"priorityClassRef": BY_KUEUE, "priority": 1}, "priorityClassRef is immutable"),
        (
            {"priorityClassRef": BY_KUEUE, "priority": 1},
            {"priorityClassRef": BY_CLUSTER},
            "priorityClassRef.group and kind are immutable",
        ),
        (
            {"priorityClassRef": BY_CLUSTER, "priority": 1},
            {"priorityClassRef": {"name": "low"}},
            "priorityClassRef.name is immutable",
        ),
        ({}, {"maximumExecutionTimeSeconds": 9}, "maximumExecutionTimeSeconds is immutable"),
    ],
)
def test_what_may_not_change_while_quota_is_reserved(kueue: Served, before: JSON, change: JSON, said: str) -> None:
    path = make(kueue, "reserved", **before)
    try:
        free = patch(kueue, f"{path}?dryRun=All", {"spec": change})
        assert free.status == 200, free.body["message"]
        reserve(kueue, path, "Admitted")
        answer = patch(kueue, path, {"spec": change})
        assert answer.status == 422
        assert said in answer.body["message"]
    finally:
        kueue.request("DELETE", path)


def test_the_name_of_a_workload_priority_class_may_change_while_quota_is_reserved(kueue: Served) -> None:
    path = make(kueue, "renamed", priorityClassRef=BY_KUEUE, priority=1)
    reserve(kueue, path)
    answer = patch(kueue, path, {"spec": {"priorityClassRef": {"name": "low"}, "priority": 0}})
    assert answer.status == 200, answer.body["message"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"admission": {"clusterQueue": "other"}}, "admission is immutable once set"),
        ({"admission": {"podSetAssignments": []}}, "podSetAssignments must have the same number of podSets"),
        ({"reclaimablePods": [{"name": "main", "count": 3}]}, "reclaimablePods must name podSets"),
        ({"reclaimablePods": [{"name": "other", "count": 1}]}, "reclaimablePods must name podSets"),
        ({"conditions": [{"type": "Admitted", "status": "True"}]}, "reason: Required value"),
        ({"conditions": [{**condition("Admitted"), "status": "yes"}]}, "Unsupported value"),
    ],
)
def test_a_status_that_is_refused(kueue: Served, status: JSON, said: str) -> None:
    path = make(kueue, "status")
    try:
        reserve(kueue, path)
        answer = patch(kueue, f"{path}/status", {"status": status})
        assert answer.status == 422
        assert said in answer.body["message"]
    finally:
        kueue.request("DELETE", path)


def test_admission_goes_and_comes_again(kueue: Served) -> None:
    path = make(kueue, "again")
    reserve(kueue, path)
    status = {"conditions": [condition("QuotaReserved", "False")], "admission": None}
    assert patch(kueue, f"{path}/status", {"status": status}).status == 200
    elsewhere = {"conditions": [condition("QuotaReserved")], "admission": {**ADMISSION, "clusterQueue": "other"}}
    assert patch(kueue, f"{path}/status", {"status": elsewhere}).status == 200


def test_a_local_queue_keeps_its_cluster_queue(kueue: Served) -> None:
    path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues"
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "user-queue"},
        "spec": {"clusterQueue": "one"},
    }
    assert kueue.request("POST", path, body).status == 201
    answer = patch(kueue, f"{path}/user-queue", {"spec": {"clusterQueue": "two"}})
    assert (answer.status, "field is immutable" in answer.body["message"]) == (422, True)
