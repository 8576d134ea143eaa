"""PATCH in its four kinds, through HTTP."""

from __future__ import annotations

from typing import Any

import pytest

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def map_path(namespace: str, name: str = "m", query: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}{query}"


def applied(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
def stored(served: Any, namespace: str) -> str:
    body = {"metadata": {"name": "m"}, "data": {"a": "1", "b": "2"}}
    assert served.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body).status == 201
    return map_path(namespace)


def test_merge_patch_removes_with_null(served: Any, stored: str) -> None:
    answer = served.request("PATCH", stored, {"data": {"a": None, "c": "3"}}, content_type=MERGE)
    assert answer.body["data"] == {"b": "2", "c": "3"}


def test_json_patch_of_a_node_status(served: Any) -> None:
    """The device plugin's stand-in: capacity is added to a node's status, by an escaped path."""
    name = "patched-node"
    status = {"capacity": {"cpu": "4"}}
    served.request("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status})
    patch = [{"op": "add", "path": "/status/capacity/example.com~1foo", "value": "4"}]
    answer = served.request("PATCH", f"/api/v1/nodes/{name}/status", patch, content_type=JSON_PATCH)
    assert answer.body["status"]["capacity"] == {"cpu": "4", "example.com/foo": "4"}


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "test", "path": "/data/a", "value": "9"}],
        [{"op": "remove", "path": "/data/nope"}],
        [{"op": "replace", "path": "/data/nope/deep", "value": "9"}],
        [{"op": "bogus", "path": "/data/a"}],
    ],
    ids=["test", "remove", "deep", "unknown"],
)
def test_json_patch_that_does_not_apply(served: Any, stored: str, patch: Any) -> None:
    answer = served.request("PATCH", stored, patch, content_type=JSON_PATCH)
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert served.request("GET", stored).body["data"] == {"a": "1", "b": "2"}


def test_strategic_patch_merges_containers_by_name(served: Any, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    containers = [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]
    served.request("POST", path, {"metadata": {"name": "p"}, "spec": {"containers": containers}})
    patch = {"spec": {"containers": [{"name": "b", "image": "y:2"}]}}
    answer = served.request("PATCH", f"{path}/p", patch, content_type=STRATEGIC)
    assert [(entry["name"], entry["image"]) for entry in answer.body["spec"]["containers"]] == [
        ("a", "x:1"),
        ("b", "y:2"),
    ]


def test_patch_with_an_old_version_is_a_conflict(served: Any, stored: str) -> None:
    old = served.request("GET", stored).body["metadata"]["resourceVersion"]
    served.request("PATCH", stored, {"data": {"a": "2"}}, content_type=MERGE)
    patch = {"metadata": {"resourceVersion": old}, "data": {"a": "3"}}
    assert served.request("PATCH", stored, patch, content_type=MERGE).status == 409


def test_unknown_patch_type_is_refused(served: Any, stored: str) -> None:
    answer = served.request("PATCH", stored, {}, content_type="application/json")
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")


def test_apply_creates_owns_and_gives_up(served: Any, namespace: str) -> None:
    path = map_path(namespace, "s", "?fieldManager=one")
    created = served.request("PATCH", path, applied("s", {"a": "1", "b": "2"}), content_type=APPLY)
    assert created.status == 201
    assert created.body["metadata"]["managedFields"][0]["operation"] == "Apply"
    fewer = served.request("PATCH", path, applied("s", {"a": "1"}), content_type=APPLY)
    assert (fewer.status, fewer.body["data"]) == (200, {"a": "1"})
    again = served.request("PATCH", path, applied("s", {"a": "1"}), content_type=APPLY)
    assert again.body["metadata"]["resourceVersion"] == fewer.body["metadata"]["resourceVersion"]


def test_apply_of_anothers_field_conflicts_until_forced(served: Any, namespace: str) -> None:
    served.request("PATCH", map_path(namespace, "s", "?fieldManager=one"), applied("s", {"a": "1"}), content_type=APPLY)
    theirs = applied("s", {"a": "2"})
    refused = served.request("PATCH", map_path(namespace, "s", "?fieldManager=two"), theirs, content_type=APPLY)
    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    assert refused.body["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert refused.body["details"]["causes"][0]["field"] == ".data.a"
    path = map_path(namespace, "s", "?fieldManager=two&force=true")
    assert served.request("PATCH", path, theirs, content_type=APPLY).body["data"] == {"a": "2"}


def test_apply_needs_a_manager(served: Any, namespace: str) -> None:
    answer = served.request("PATCH", map_path(namespace, "s"), applied("s", {}), content_type=APPLY)
    assert answer.status == 422
    assert "fieldManager: Required value: is required for apply patch" in answer.body["message"]


def test_managers_that_a_client_sends_are_taken_over(served: Any, stored: str) -> None:
    """A migration from client-side to server-side apply rewrites managedFields by a patch."""
    managers = served.request("GET", stored).body["metadata"]["managedFields"]
    moved = [{**managers[0], "manager": "moved", "operation": "Apply"}]
    patch = [{"op": "replace", "path": "/metadata/managedFields", "value": moved}]
    answer = served.request("PATCH", stored, patch, content_type=JSON_PATCH)
    assert [(entry["manager"], entry["operation"]) for entry in answer.body["metadata"]["managedFields"]] == [
        ("moved", "Apply")
    ]
