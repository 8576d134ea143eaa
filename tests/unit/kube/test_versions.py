"""Older versions become the one that Berth reads, with the values that a kube-apiserver 1.37.2 shows in v1."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from app.kube.documents import read_objects
from app.kube.versions import as_read
from app.wire import JSON

TAINT = {"key": "k", "effect": "NoSchedule"}
SELECTORS = [{"cel": {"expression": "true"}}]
TOLERATIONS = [{"key": "a", "operator": "Exists"}]
FIRST = [{"name": "x", "deviceClassName": "vf.example.com"}]
ASKED = {"deviceClassName": "vf.example.com", "allocationMode": "ExactCount", "count": 2, "selectors": SELECTORS}
CASES: list[tuple[str, Any, Any]] = [
    (
        "ResourceClaim",
        {"devices": {"requests": [{"name": "r", **ASKED, "tolerations": TOLERATIONS}, {"name": "s", "firstAvailable": FIRST}]}},
        {
            "devices": {
                "requests": [
                    {"name": "r", "exactly": {**ASKED, "tolerations": TOLERATIONS}},
                    {"name": "s", "firstAvailable": FIRST},
                ]
            }
        },
    ),
    (
        "ResourceClaimTemplate",
        {"metadata": {}, "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c", "adminAccess": True}]}}},
        {"metadata": {}, "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}}]}}},
    ),
    ("DeviceClass", {"extendedResourceName": "example.com/vf"}, {"extendedResourceName": "example.com/vf"}),
    (
        "ResourceSlice",
        {
            "driver": "d",
            "nodeName": "n1",
            "devices": [
                {"name": "d", "basic": {"attributes": {"a": {"bool": True}}, "capacity": {"m": {"value": "1Gi"}}, "taints": [TAINT]}},
                {"name": "e"},
            ],
        },
        {
            "driver": "d",
            "nodeName": "n1",
            "devices": [
                {"name": "d", "attributes": {"a": {"bool": True}}, "capacity": {"m": {"value": "1Gi"}}, "taints": [TAINT]},
                {"name": "e"},
            ],
        },
    ),
]  # fmt: skip


def body(kind: str, version: str, spec: Any) -> JSON:
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(("kind", "old", "new"), CASES, ids=[kind for kind, _, _ in CASES])
def test_v1beta1_becomes_v1(kind: str, old: Any, new: Any) -> None:
    given = body(kind, "v1beta1", old)
    before = copy.deepcopy(given)
    assert as_read(given) == body(kind, "v1", new)
    assert given == before


@pytest.mark.parametrize(("kind", "old", "new"), CASES, ids=[kind for kind, _, _ in CASES])
def test_v1beta2_has_the_fields_of_v1(kind: str, old: Any, new: Any) -> None:
    assert as_read(body(kind, "v1beta2", new)) == body(kind, "v1", new)
    assert as_read(body(kind, "v1", old)) == body(kind, "v1", old)


@pytest.mark.parametrize(
    "spec", [None, 1, [], {"devices": 1}, {"devices": {"requests": {}}}, {"devices": [1, None, {}]}]
)
def test_what_has_another_type_stays(spec: Any) -> None:
    for kind in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"):
        assert as_read(body(kind, "v1beta1", spec))["spec"] == spec


@pytest.mark.parametrize("version", ["resource.k8s.io/v2", "example.com/v1beta1", "v1beta1", "", None, 1, ["a"]])
def test_other_versions_and_groups_stay(version: Any) -> None:
    given = {**body("ResourceClaim", "v1", CASES[0][1]), "apiVersion": version}
    assert as_read(given) == given


def test_items_of_lists_are_converted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: resource.k8s.io/v1beta1\nkind: DeviceClassList\nitems: [{metadata: {name: a}}]\n---\n"
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: resource.k8s.io/v1beta1\n  kind: ResourceClaim\n"
        "  spec: {devices: {requests: [{name: r, deviceClassName: c}]}}\n"
    )
    device_class, claim = read_objects(tmp_path / "a.yaml")
    assert device_class["apiVersion"] == claim["apiVersion"] == "resource.k8s.io/v1"
    assert claim["spec"]["devices"]["requests"] == [{"name": "r", "exactly": {"deviceClassName": "c"}}]
