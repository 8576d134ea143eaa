"""Workload objects as they are kept."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.kube.store import Store
from app.workloads.controller.stored import MAX_DEPTH, project_workload
from app.workloads.model import Workload

OBJECT: dict[str, Any] = {
    "metadata": {"namespace": "tenant-tenant1", "name": "workload-0a7c", "labels": {"x": "y"}},
    "spec": {
        "metadata": {
            "id": "0a7c",
            "orchestrator": "kubernetes",
            "resourceType": "v1/Pod",
            "resourceName": "p1",
            "resourceNamespace": "default",
        },
        "state": {"nodeName": "host-a", "ready": True, "extra": {"labels": {"b": "2", "a": "1"}, "annotations": {}}},
    },
    "status": {"rules": {}},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    obj = copy.deepcopy(OBJECT)
    *parents, last = path.split(".")
    target = obj
    for name in parents:
        target = target[name]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return obj


def document(obj: dict[str, Any]) -> Any:
    return json.loads(project_workload(obj).document)


def test_a_workload_is_kept_as_compact_sorted_json() -> None:
    workload = project_workload(OBJECT)
    assert workload == Workload(
        "tenant-tenant1",
        "workload-0a7c",
        "0a7c",
        "host-a",
        b'{"metadata":{"id":"0a7c","orchestrator":"kubernetes","resourceName":"p1","resourceNamespace":"default",'
        b'"resourceType":"v1/Pod"},"state":{"extra":{"annotations":{},"labels":{"a":"1","b":"2"}},"nodeName":"host-a",'
        b'"ready":true}}',
    )


def test_the_order_of_fields_and_the_status_are_no_change() -> None:
    other = copy.deepcopy(OBJECT)
    other["spec"]["state"]["extra"]["labels"] = {"a": "1", "b": "2"}
    other["status"] = {"rules": {"tenant": [{"id": "x"}]}}
    assert project_workload(other) == project_workload(OBJECT)


@pytest.mark.parametrize("value", [..., None, {}])
@pytest.mark.parametrize("name", ["labels", "annotations"])
def test_maps_are_never_null(name: str, value: Any) -> None:
    assert document(changed(f"spec.state.extra.{name}", value))["state"]["extra"][name] == {}


@pytest.mark.parametrize("value", [..., None])
def test_a_workload_without_extra_has_empty_maps(value: Any) -> None:
    assert document(changed("spec.state.extra", value))["state"]["extra"] == {"labels": {}, "annotations": {}}


@pytest.mark.parametrize("value", [..., None, ""])
def test_a_workload_without_a_node_has_no_node_name(value: Any) -> None:
    obj = changed("spec.state.nodeName", value)
    assert "nodeName" not in document(obj)["state"]
    assert project_workload(obj).node_name == ""


def test_a_workload_is_not_ready_until_it_says_so() -> None:
    assert document(changed("spec.state.ready", ...))["state"]["ready"] is False


def test_other_extras_are_kept_and_unknown_fields_are_not() -> None:
    assert document(changed("spec.state.extra.more", {"a": [1]}))["state"]["extra"]["more"] == {"a": [1]}
    assert "more" not in document(changed("spec.state.more", 1))["state"]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("metadata.namespace", "default", "namespace of a tenant"),
        ("metadata.namespace", ..., "namespace of a tenant"),
        ("metadata.name", "workload-other", "must be named workload-0a7c"),
        ("spec", ..., "empty name"),
        ("spec.metadata", [], "metadata: must be an object"),
        ("spec.metadata.id", "", "empty name"),
        ("spec.metadata.id", 7, "id: must be a string"),
        ("spec.metadata.id", "A_b", "not a valid name"),
        ("spec.metadata.resourceType", "v1/Service", "resourceType"),
        ("spec.metadata.resourceName", {}, "resourceName: must be a string"),
        ("spec.state.ready", "true", "ready: must be true or false"),
        ("spec.state.nodeName", 1, "nodeName: must be a string"),
        ("spec.state.extra", "x", "extra: must be an object"),
        ("spec.state.extra.labels", [], "labels: must be an object"),
        ("spec.state.extra.labels", {"a": 1}, "labels: every value must be a string"),
        ("spec.state.extra.annotations", {"a": None}, "annotations: every value must be a string"),
    ],
)
def test_an_unusable_workload_is_a_value_error(path: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        project_workload(changed(path, value))


def test_extras_may_not_be_nested_without_end() -> None:
    deep: Any = "x"
    for _ in range(MAX_DEPTH - 2):
        deep = [deep]
    project_workload(changed("spec.state.extra.more", deep))
    with pytest.raises(ValueError, match="nested too deeply"):
        project_workload(changed("spec.state.extra.more", [[deep]]))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["metadata", "spec", "metadata.namespace", "spec.metadata", "spec.state", "spec.state.extra"]
FIELDS += ["spec.state.extra.labels", "spec.metadata.id", "spec.state.ready", "spec.state.nodeName"]


@settings(max_examples=100, deadline=None)
@given(path=st.sampled_from(FIELDS), value=JSON_VALUES)
def test_any_json_is_a_workload_or_a_value_error(path: str, value: Any) -> None:
    try:
        project_workload(changed(path, value))
    except ValueError:
        return


def test_namespaces_and_nodes_are_shared_between_workloads() -> None:
    first, second = project_workload(json.loads(json.dumps(OBJECT))), project_workload(json.loads(json.dumps(OBJECT)))
    assert first.namespace is second.namespace
    assert first.node_name is second.node_name


def test_it_is_a_projection_of_a_store() -> None:
    store: Store[Workload] = Store(project_workload)
    store.upsert(OBJECT)
    assert store.get("tenant-tenant1", "workload-0a7c") == project_workload(OBJECT)
