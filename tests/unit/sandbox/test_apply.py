from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from app.devtools.sandbox.merge.apply import ApplyConflict, server_side_apply, track_update
from app.devtools.sandbox.merge.strategic import merge_keys, merge_keys_from_schema
from tests.support.paths import REVIEWS

NOW = "2026-11-20T20:20:23Z"


def apply(
    live: Any, config: dict[str, Any], manager: str = "me", *, force: bool = False, now: str = NOW
) -> dict[str, Any]:
    keys = merge_keys(config["kind"])
    return server_side_apply(live, config, manager=manager, force=force, now=now, merge_keys=keys)


def pod(containers: list[Any] | None = None, **metadata: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}}
    return obj if containers is None else {**obj, "spec": {"containers": containers}}


def owned(obj: dict[str, Any], manager: str, operation: str = "Apply") -> Any:
    found = [
        e["fieldsV1"]
        for e in obj["metadata"].get("managedFields", [])
        if (e["manager"], e["operation"]) == (manager, operation)
    ]
    return found[0] if found else None


@pytest.mark.parametrize("name", ["plain", "rich", "webhook-demo"])
def test_a_create_owns_what_a_real_server_says_it_owns(name: str) -> None:
    """The reviews come from a real API server, which computed managedFields before its admission plugins added fields."""
    obj = json.loads((REVIEWS / f"Pod-{name}-CREATE.json").read_text())["request"]["object"]
    expected = obj["metadata"].pop("managedFields")
    for field in ("priority", "preemptionPolicy"):
        del obj["spec"][field]
    mine = [t for t in obj["spec"].pop("tolerations") if not t["key"].startswith("node.kubernetes.io/")]
    obj["spec"] |= {"tolerations": mine} if mine else {}
    tracked = track_update(None, obj, manager="kubectl-client-side-apply", api_version="v1", now=NOW)
    assert tracked["metadata"]["managedFields"] == expected


def test_two_managers_own_their_own_fields() -> None:
    live = apply(None, pod([{"name": "a", "image": "x"}]), "one")
    live = apply(live, pod(labels={"k": "v"}), "two")
    assert live["spec"]["containers"] == [{"name": "a", "image": "x"}]
    assert owned(live, "one") == {
        "f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:image": {}}}}
    }
    assert owned(live, "two") == {"f:metadata": {"f:labels": {"f:k": {}}}}


def test_a_field_that_its_only_manager_leaves_out_is_removed() -> None:
    live = apply(
        None,
        pod(
            [{"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}]}, {"name": "b", "image": "y"}],
            labels={"k": "v"},
        ),
    )
    live["spec"]["containers"][1]["imagePullPolicy"] = "Always"  # a default that nobody owns
    live = apply(live, pod([{"name": "a", "image": "x"}]))
    assert live["spec"] == {"containers": [{"name": "a", "image": "x"}]}
    assert "labels" not in live["metadata"]
    assert live["metadata"]["name"] == "p"


def test_a_shared_field_stays_until_the_last_manager_lets_go() -> None:
    live = apply(None, pod(labels={"k": "v", "only": "one"}), "one")
    live = apply(live, pod(labels={"k": "v"}), "two")
    live = apply(live, pod(), "one")
    assert live["metadata"]["labels"] == {"k": "v"}
    assert owned(live, "one") is None
    live = apply(live, pod(), "two")
    assert "labels" not in live["metadata"]


def test_a_change_of_somebody_elses_field_is_a_conflict_unless_forced() -> None:
    live = apply(None, pod([{"name": "a", "image": "x"}]), "one")
    with pytest.raises(ApplyConflict) as caught:
        apply(live, pod([{"name": "a", "image": "y"}]), "two")
    assert caught.value.conflicts == [('"one"', '.spec.containers[name="a"].image')]
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "one": .spec.containers[name="a"].image'
    assert caught.value.causes[0]["reason"] == "FieldManagerConflict"
    forced = apply(live, pod([{"name": "a", "image": "y"}]), "two", force=True)
    assert forced["spec"]["containers"][0]["image"] == "y"
    assert "f:image" not in owned(forced, "one")["f:spec"]["f:containers"]['k:{"name":"a"}']


def test_conflicts_with_an_update_name_its_version() -> None:
    live = track_update(None, pod(labels={"a": "1", "b": "1"}), manager="kubectl-edit", api_version="v1", now=NOW)
    with pytest.raises(ApplyConflict) as caught:
        apply(live, pod(labels={"a": "2", "b": "2"}))
    assert str(caught.value).split("\n") == [
        'Apply failed with 2 conflicts: conflicts with "kubectl-edit" using v1:',
        "- .metadata.labels.a",
        "- .metadata.labels.b",
    ]


def test_the_same_value_is_shared_without_conflict() -> None:
    live = apply(None, pod(labels={"a": "1"}), "one")
    live = apply(live, pod(labels={"a": "1"}), "two")
    assert owned(live, "one") == owned(live, "two")


def test_applying_the_same_again_changes_nothing_at_all() -> None:
    config = pod([{"name": "a", "image": "x", "ports": [{"containerPort": 80}]}], finalizers=["x/y"])
    live = apply(None, config)
    assert apply(deepcopy(live), config, now="2030-01-01T00:00:00Z") == live


def test_an_untracked_object_belongs_to_before_first_apply() -> None:
    with pytest.raises(ApplyConflict, match=r'conflict with "before-first-apply" using v1: \.metadata\.labels\.a'):
        apply(pod(labels={"a": "1"}), pod(labels={"a": "2"}))


def test_list_elements_are_known_by_all_keys_and_their_defaults() -> None:
    live = apply(
        None,
        pod(
            [
                {
                    "name": "a",
                    "ports": [
                        {"containerPort": 53, "protocol": "UDP"},
                        {"containerPort": 53, "protocol": "TCP", "name": "t"},
                    ],
                }
            ]
        ),
    )
    live = apply(live, pod([{"name": "a", "ports": [{"containerPort": 53, "hostIP": "1.1.1.1"}]}]), "two")
    assert live["spec"]["containers"][0]["ports"] == [
        {"containerPort": 53, "protocol": "UDP"},
        {"containerPort": 53, "protocol": "TCP", "name": "t", "hostIP": "1.1.1.1"},
    ]
    assert (
        'k:{"containerPort":53,"protocol":"TCP"}'
        in owned(live, "two")["f:spec"]["f:containers"]['k:{"name":"a"}']["f:ports"]
    )


def test_sets_merge_by_value_and_atomic_values_are_replaced() -> None:
    live = apply(None, {**pod(finalizers=["x/a"]), "spec": {"nodeSelector": {"a": "1"}}}, "one")
    live = apply(live, pod(finalizers=["x/b"]), "two")
    assert live["metadata"]["finalizers"] == ["x/a", "x/b"]
    assert owned(live, "two") == {"f:metadata": {"f:finalizers": {'v:"x/b"': {}}}}
    with pytest.raises(ApplyConflict, match=r"\.spec\.nodeSelector"):
        apply(live, {**pod(), "spec": {"nodeSelector": {"b": "1"}}}, "two")


def test_applied_elements_keep_their_order_among_others() -> None:
    names = lambda obj: "".join(c["name"] for c in obj["spec"]["containers"])  # noqa: E731
    live = apply(None, pod([{"name": n} for n in "abc"]), "one")
    assert names(apply(live, pod([{"name": n} for n in "xay"]), "two")) == "xabcy"
    assert names(apply(live, pod([{"name": n} for n in "ca"]), "two")) == "bca"


def test_an_update_takes_over_what_it_changes_and_releases_what_it_removes() -> None:
    old = track_update(None, pod(labels={"a": "1", "b": "1"}), manager="one", api_version="v1", now=NOW)
    new = deepcopy(old)
    new["metadata"]["labels"] = {"a": "2", "c": "1"}
    done = track_update(old, new, manager="two", api_version="v1", now=NOW)
    assert owned(done, "one", "Update") == {"f:metadata": {"f:labels": {}}}
    assert owned(done, "two", "Update") == {"f:metadata": {"f:labels": {"f:a": {}, "f:c": {}}}}


def test_an_update_without_effect_keeps_times_and_entries() -> None:
    old = track_update(None, pod(labels={"a": "1"}), manager="one", api_version="v1", now=NOW)
    bare = deepcopy(old)
    del bare["metadata"]["managedFields"]
    assert track_update(old, bare, manager="one", api_version="v1", now="2030-01-01T00:00:00Z") == old
    forgotten = {**bare, "metadata": {**bare["metadata"], "managedFields": [{}]}}
    assert "managedFields" not in track_update(old, forgotten, manager="one", api_version="v1", now=NOW)["metadata"]


ZZ = {
    "manager": "zz",
    "operation": "Update",
    "apiVersion": "v1",
    "time": NOW,
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}},
}


def write(old: Any, managed: Any, labels: dict[str, str], *, subresource: str = "") -> dict[str, Any]:
    """The owners by manager after `me` wrote these labels and managedFields."""
    metadata = {"name": "p", "labels": labels} | ({} if managed is None else {"managedFields": managed})
    new = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    done = track_update(old, new, manager="me", api_version="v1", now=NOW, subresource=subresource)
    return {entry["manager"]: entry["fieldsV1"] for entry in done["metadata"].get("managedFields", [])}


def test_an_update_may_bring_owners_of_its_own() -> None:
    old = track_update(None, pod(labels={"a": "1", "b": "2"}), manager="one", api_version="v1", now=NOW)
    assert write(old, [ZZ], {"a": "1", "b": "2"}) == {"zz": ZZ["fieldsV1"]}
    assert write(old, [ZZ], {"a": "1", "b": "3"}) == {
        "zz": ZZ["fieldsV1"],
        "me": {"f:metadata": {"f:labels": {"f:b": {}}}},
    }
    assert "zz" not in write(old, [ZZ], {"a": "1", "b": "2"}, subresource="status")


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {**ZZ, "operation": "Foo"},
        {**ZZ, "fieldsType": "Foo"},
        {**ZZ, "apiVersion": ""},
        {**ZZ, "fieldsV1": {"x": {}}},
        {**ZZ, "fieldsV1": {"f:metadata": "x"}},
    ],
)
def test_owners_that_make_no_sense_change_nothing(entry: dict[str, Any]) -> None:
    old = track_update(None, pod(labels={"a": "1"}), manager="one", api_version="v1", now=NOW)
    assert set(write(old, [ZZ, entry], {"a": "1"})) == {"one"}


def test_nobody_is_recorded_after_a_reset_until_somebody_applies() -> None:
    old = track_update(None, pod(labels={"a": "1"}), manager="one", api_version="v1", now=NOW)
    assert write(old, [], {"a": "2"}) == {}
    bare = pod(labels={"a": "2"})
    assert write(bare, None, {"a": "3"}) == {}
    assert {entry["manager"] for entry in apply(bare, pod(labels={"a": "2"}))["metadata"]["managedFields"]} == {
        "me",
        "before-first-apply",
    }


def test_a_definition_owns_its_names_one_by_one() -> None:
    crd = {"apiVersion": "v1", "kind": "CustomResourceDefinition", "metadata": {}, "spec": {"names": {"kind": "A"}}}
    assert owned(track_update(None, crd, manager="one", api_version="v1", now=NOW), "one", "Update") == {
        "f:spec": {"f:names": {"f:kind": {}}}
    }


def test_status_writes_are_entries_of_their_own() -> None:
    old = track_update(None, pod([{"name": "a"}]), manager="one", api_version="v1", now=NOW)
    new = {**old, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    done = track_update(old, new, manager="one", api_version="v1", now=NOW, subresource="status")
    entry = done["metadata"]["managedFields"][1]
    assert (entry["subresource"], entry["manager"]) == ("status", "one")
    assert entry["fieldsV1"]["f:status"]["f:conditions"]['k:{"type":"Ready"}'] == {
        ".": {},
        "f:type": {},
        "f:status": {},
    }


def test_crd_schemas_decide_how_custom_lists_merge() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "rows": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"], "items": {"type": "object"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}}}  # fmt: skip
    keys = merge_keys_from_schema(schema)
    assert keys["spec", "rows"] == ("id",)
    assert keys["spec", "set"] == ()
    assert ("spec", "plain") not in keys

    def run(live: Any, spec: dict[str, Any], manager: str) -> dict[str, Any]:
        config = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}
        return server_side_apply(live, config, manager=manager, force=True, now=NOW, merge_keys=keys)

    live = run(None, {"rows": [{"id": 1}], "plain": ["a"], "set": ["a"]}, "one")
    live = run(live, {"rows": [{"id": 2}], "plain": ["b"], "set": ["b"]}, "two")
    assert live["spec"] == {"rows": [{"id": 1}, {"id": 2}], "plain": ["b"], "set": ["a", "b"]}
