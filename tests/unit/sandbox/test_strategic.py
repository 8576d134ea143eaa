from __future__ import annotations

from typing import Any

import pytest

from app.devtools.sandbox.merge.strategic import BadPatch, json_merge, merge_keys, strategic_merge


def spec(original: dict[str, Any], patch: dict[str, Any], kind: str = "Pod") -> Any:
    return strategic_merge({"spec": original}, {"spec": patch}, kind)["spec"]


def containers(original: list[Any], patch: list[Any], **more: Any) -> Any:
    return spec({"containers": original}, {"containers": patch, **more})["containers"]


A, B = {"name": "a", "image": "1"}, {"name": "b", "image": "1"}


def test_list_elements_merge_by_their_key() -> None:
    assert containers([A, B], [{"name": "b", "image": "2"}]) == [A, {"name": "b", "image": "2"}]


def test_new_elements_come_first_unless_the_order_is_given() -> None:
    new = {"name": "n"}
    assert containers([A], [new]) == [new, A]
    assert containers([A], [new], **{"$setElementOrder/containers": [{"name": "a"}, {"name": "n"}]}) == [A, new]


def test_the_element_order_alone_reorders() -> None:
    assert spec({"containers": [A, B]}, {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}) == {
        "containers": [B, A]
    }


def test_the_servers_own_elements_stay_in_place() -> None:
    order = {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}]}
    sidecar = {"name": "mid"}
    assert containers([A, sidecar, B], [{"name": "b", "image": "2"}], **order) == [
        A,
        sidecar,
        {"name": "b", "image": "2"},
    ]


def test_delete_and_replace_directives() -> None:
    assert containers([A, B], [{"name": "a", "$patch": "delete"}]) == [B]
    assert containers([A, B], [{"$patch": "replace"}, {"name": "c"}]) == [{"name": "c"}]
    assert spec({"securityContext": {"runAsUser": 1}}, {"securityContext": {"$patch": "replace", "fsGroup": 2}}) == {
        "securityContext": {"fsGroup": 2}
    }
    assert spec({"securityContext": {"runAsUser": 1}}, {"securityContext": {"$patch": "delete"}}) == {
        "securityContext": {}
    }


def test_retain_keys_drops_the_others() -> None:
    volume = {"name": "v", "emptyDir": {}}
    patch = {"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/x"}}]}
    assert spec({"volumes": [volume]}, patch) == {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}


def test_primitive_lists_merge_and_delete() -> None:
    original = {"metadata": {"finalizers": ["a", "b"]}}
    assert strategic_merge(original, {"metadata": {"finalizers": ["c", "a"]}}, "Pod")["metadata"]["finalizers"] == [
        "c",
        "a",
        "b",
    ]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert strategic_merge(original, patch, "Pod")["metadata"]["finalizers"] == ["b"]


def test_lists_without_a_merge_strategy_are_replaced_and_null_deletes() -> None:
    original = {"tolerations": [{"key": "a"}], "nodeName": "n", "nodeSelector": {"a": "1"}}
    patch = {"tolerations": [{"key": "b"}], "nodeName": None, "gone": None, "nodeSelector": {"b": "2"}}
    assert spec(original, patch) == {"tolerations": [{"key": "b"}], "nodeSelector": {"a": "1", "b": "2"}}


def test_service_ports_merge_by_port_and_conditions_by_type() -> None:
    assert spec({"ports": [{"port": 80, "name": "a"}]}, {"ports": [{"port": 80, "targetPort": 8080}]}, "Service") == {
        "ports": [{"port": 80, "name": "a", "targetPort": 8080}]
    }
    node = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "Ready", "reason": "x"}]}}
    assert strategic_merge(node, patch, "Node")["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "reason": "x"}
    ]


def test_pod_templates_have_the_pods_rules() -> None:
    template = lambda image: {"template": {"spec": {"containers": [{"name": "a", **image}]}}}  # noqa: E731
    assert spec(template({"image": "1"}), template({"tty": True}), "Deployment") == template(
        {"image": "1", "tty": True}
    )


def test_nonsense_is_refused() -> None:
    with pytest.raises(BadPatch, match="does not contain declared merge key: name"):
        containers([A], [{"image": "x"}])
    with pytest.raises(BadPatch, match=r"unknown patch type: explode in map: map\[\$patch:explode\]"):
        spec({}, {"$patch": "explode"})


def test_merge_keys_name_lists_sets_and_leave_atomic_ones_out() -> None:
    keys = merge_keys("Pod")
    assert keys["spec", "containers"] == ("name",)
    assert keys["spec", "containers", "ports"] == ("containerPort", "protocol")
    assert keys["spec", "initContainers", "volumeMounts"] == ("mountPath",)
    assert keys["metadata", "ownerReferences"] == ("uid",)
    assert keys["metadata", "finalizers"] == ()
    assert ("spec", "tolerations") not in keys
    assert merge_keys("NoSuchKind")["metadata", "ownerReferences"] == ("uid",)


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_json_merge_follows_the_rfcs_examples(original: Any, patch: Any, result: Any) -> None:
    assert json_merge(original, patch) == result
