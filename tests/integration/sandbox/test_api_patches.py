"""PATCH in its four kinds, through HTTP."""

from __future__ import annotations

import copy
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


LONG_AGO = "2020-01-01T00:00:00Z"


def owned_since_long(served: Any, namespace: str, *owners: tuple[str, str, str]) -> str:
    """The path of a ConfigMap whose managers (name, operation, a letter for each key of `data`) wrote it long ago."""
    name = "-".join(("owned", *(part.lower() for owner in owners for part in owner)))
    body = {"metadata": {"name": name}, "data": {"a": "1", "b": "2", "c": "3"}}
    assert served.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body).status == 201
    entries = [
        {
            "manager": manager,
            "operation": operation,
            "apiVersion": "v1",
            "time": LONG_AGO,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {f"f:{key}": {} for key in keys}},
        }
        for manager, operation, keys in owners
    ]
    patch = [{"op": "replace", "path": "/metadata/managedFields", "value": entries}]
    assert served.request("PATCH", map_path(namespace, name), patch, content_type=JSON_PATCH).status == 200
    return map_path(namespace, name)


def renewed(answer: Any) -> dict[str, bool | None]:
    """Whether each manager has a new time; None for one without a time."""
    times = {entry["manager"]: entry.get("time") for entry in answer.body["metadata"]["managedFields"]}
    return {manager: time and time != LONG_AGO for manager, time in times.items()}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"a": "1"}, {"me": False, "you": False}),
        ({"a": "9"}, {"me": True, "you": False}),
        ({"d": "9"}, {"me": True, "you": False}),
        ({"a": None}, {"me": False, "you": False}),
        ({"b": "9"}, {"me": True}),
    ],
    ids=["the-same", "changes-its-own", "adds", "only-removes", "takes-over"],
)
def test_the_time_of_an_update_is_that_of_the_last_value_it_wrote(
    served: Any, namespace: str, data: dict[str, str | None], expected: dict[str, bool]
) -> None:
    """The fields that a manager owns may stay the same while their values change."""
    path = owned_since_long(served, namespace, ("me", "Update", "ac"), ("you", "Update", "b"))
    answer = served.request("PATCH", f"{path}?fieldManager=me", {"data": data}, content_type=MERGE)
    assert renewed(answer) == expected


@pytest.mark.parametrize(
    ("manager", "data", "expected"),
    [
        ("me", {"a": "1"}, {"me": False, "you": False}),
        ("me", {"a": "9"}, {"me": True, "you": False}),
        ("me", {"a": "1", "b": "2"}, {"me": False, "you": False}),
        ("you", {"a": "1", "b": "2"}, {"me": False, "you": False}),
        ("third", {"a": "1"}, {"me": False, "you": False, "third": None}),
    ],
    ids=["the-same", "changes", "owns-more", "another-owns-more", "owns-first"],
)
def test_an_apply_that_changes_no_value_leaves_the_times(
    served: Any, namespace: str, manager: str, data: dict[str, str], expected: dict[str, bool | None]
) -> None:
    path = owned_since_long(served, namespace, ("me", "Apply", "a"), ("you", "Apply", "b"))
    body = applied(path.rpartition("/")[2], data)
    assert renewed(served.request("PATCH", f"{path}?fieldManager={manager}", body, content_type=APPLY)) == expected


def test_an_apply_that_gives_a_field_up_has_a_new_time_where_the_field_goes(served: Any, namespace: str) -> None:
    path = owned_since_long(served, namespace, ("me", "Apply", "ab"))
    body = applied(path.rpartition("/")[2], {"b": "2"})
    assert renewed(served.request("PATCH", f"{path}?fieldManager=me", body, content_type=APPLY)) == {"me": True}


CONTAINER_DEFAULTS = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "Always",
}
DEPLOYMENT: dict[str, Any] = {
    "metadata": {"name": "w", "labels": {"k": "l"}},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]},
        },
    },
}


def _patched(served: Any, namespace: str, patch: Any) -> Any:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    assert served.request("POST", path, DEPLOYMENT).status == 201
    return served.request("PATCH", f"{path}/w", patch, content_type=STRATEGIC)


@pytest.mark.parametrize(
    ("labels", "result"),
    [
        ({"$patch": "replace", "z": "1"}, {"z": "1"}),
        ({"$patch": "replace"}, None),
        ({"$patch": "delete", "z": "1"}, None),
    ],
)
def test_a_directive_replaces_or_deletes_a_map(served: Any, namespace: str, labels: Any, result: Any) -> None:
    answer = _patched(served, namespace, {"metadata": {"labels": labels}})
    assert (answer.status, answer.body["metadata"].get("labels")) == (200, result)


@pytest.mark.parametrize(
    ("containers", "result"),
    [
        ([{"$patch": "replace"}, {"name": "e", "image": "x"}], {"e": "x"}),
        ([{"name": "e", "image": "x"}, {"$patch": "replace"}], {"e": "x"}),
        # An element with a directive is nothing else.
        ([{"$patch": "replace", "name": "c", "image": "x"}, {"name": "e", "image": "x"}], {"e": "x"}),
        ([{"$patch": "delete", "name": "d"}], {"c": "i"}),
        ([{"$patch": "delete", "name": "d"}, {"$patch": "replace"}, {"name": "e", "image": "x"}], {"e": "x"}),
    ],
)
def test_a_directive_replaces_a_list_or_deletes_an_element(
    served: Any, namespace: str, containers: Any, result: Any
) -> None:
    answer = _patched(served, namespace, {"spec": {"template": {"spec": {"containers": containers}}}})
    assert answer.status == 200, answer.body
    found = answer.body["spec"]["template"]["spec"]["containers"]
    assert found == [{"name": name, "image": image, **CONTAINER_DEFAULTS} for name, image in result.items()]


@pytest.mark.parametrize(
    ("patch", "status", "fault"),
    [
        (
            {"metadata": {"labels": {"$patch": "merge", "z": "1"}}},
            500,
            "unknown patch type: merge in map: map[$patch:merge z:1]",
        ),
        ({"metadata": {"labels": {"$patch": "other"}}}, 500, "unknown patch type: other in map: map[$patch:other]"),
        (
            {"spec": {"template": {"spec": {"containers": [{"$patch": "merge", "name": "c"}]}}}},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"spec": {"template": {"spec": {"containers": [{"$patch": "delete"}]}}}},
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            {"$patch": "delete"},
            400,
            "the name of the object (w based on URL) was undeterminable: name must be provided",
        ),
        (
            {"spec": {"template": {"spec": {"containers": [{"$patch": "replace", "name": "c", "image": "x"}]}}}},
            422,
            'Deployment.apps "w" is invalid: spec.template.spec.containers: Required value',
        ),
    ],
)
def test_directives_that_are_refused(served: Any, namespace: str, patch: Any, status: int, fault: str) -> None:
    answer = _patched(served, namespace, patch)
    assert (answer.status, answer.body["message"]) == (status, fault)


@pytest.mark.parametrize(
    ("field", "patch", "result"),
    [
        # Without a merge key, a directive is a field that an element does not have.
        ("tolerations", [{"$patch": "delete", "key": "a"}, {"key": "q"}], [{"key": "a"}, {"key": "q"}]),
        # Where nothing is there yet, what has a directive is left out.
        (
            "volumes",
            [{"$patch": "replace", "name": "v"}, {"name": "w", "emptyDir": {}}],
            [{"name": "w", "emptyDir": {}}],
        ),
        ("volumes", [{"$patch": "other", "name": "v", "emptyDir": {}}], None),
        ("nodeSelector", {"$patch": "replace", "a": "b"}, None),
        ("affinity", {"nodeAffinity": {"$patch": "replace"}}, {}),
    ],
)
def test_directives_without_effect(served: Any, namespace: str, field: str, patch: Any, result: Any) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["template"]["spec"]["tolerations"] = [{"key": "old"}]
    assert served.request("POST", path, body).status == 201
    change = {"spec": {"template": {"spec": {field: patch}}}}
    answer = served.request("PATCH", f"{path}/w", change, content_type=STRATEGIC)
    assert (answer.status, answer.body["spec"]["template"]["spec"].get(field)) == (200, result)
