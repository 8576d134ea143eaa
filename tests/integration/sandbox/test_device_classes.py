"""What DeviceClasses may say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.resource_claims import APPLY, GROUP, MERGE

JSON = dict[str, Any]
CLASSES = f"{GROUP}/deviceclasses"
OPAQUE = {"driver": "d.example.com", "parameters": {"a": 1}}


def cel(expression: str) -> JSON:
    return {"cel": {"expression": expression}}


ACCEPTED: dict[str, JSON] = {
    "ok": {},
    "sel": {"selectors": [cel("true")]},
    "cfg": {"config": [{"opaque": OPAQUE}]},
    "ext": {"extendedResourceName": "example.com/foo"},
}
REFUSED: dict[str, tuple[JSON, str]] = {
    "selbad": (
        {"selectors": [cel("1")]},
        'spec.selectors[0].cel.expression: Invalid value: "1": must evaluate to bool or the unknown type, not int',
    ),
    "selnone": ({"selectors": [{}]}, "spec.selectors[0].cel: Required value"),
    "cfgnone": ({"config": [{}]}, "spec.config[0].opaque: Required value"),
    "cfgmany": ({"config": [{"opaque": OPAQUE}] * 33}, "spec.config: Too many: 33: must have at most 32 items"),
    "selmany": ({"selectors": [cel("true")] * 33}, "spec.selectors: Too many: 33: must have at most 32 items"),
    "extended-plain": (
        {"extendedResourceName": "foo"},
        'spec.extendedResourceName: Invalid value: "foo": must be a valid extended resource name',
    ),
    "extended-native": (
        {"extendedResourceName": "kubernetes.io/foo"},
        'spec.extendedResourceName: Invalid value: "kubernetes.io/foo": must be a valid extended resource name',
    ),
    "extended-req": (
        {"extendedResourceName": "requests.x/foo"},
        'spec.extendedResourceName: Invalid value: "requests.x/foo": must be a valid extended resource name',
    ),
    "extended-empty": (
        {"extendedResourceName": ""},
        'spec.extendedResourceName: Invalid value: "": must be a valid extended resource name',
    ),
    "extended-bad": (
        {"extendedResourceName": "example.com/f_-"},
        'spec.extendedResourceName: Invalid value: "example.com/f_-": must be a valid extended resource name',
    ),
    "extended-two": (
        {"extendedResourceName": "a/b/c"},
        'spec.extendedResourceName: Invalid value: "a/b/c": must be a valid extended resource name',
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_class_is_accepted(served: Any, case: str) -> None:
    answer = served.request("POST", f"{CLASSES}?dryRun=All", {"metadata": {"name": case}, "spec": ACCEPTED[case]})
    assert answer.status == 201, answer.body


@pytest.mark.parametrize("case", REFUSED)
def test_a_class_is_refused(served: Any, case: str) -> None:
    body, message = REFUSED[case]
    answer = served.request("POST", f"{CLASSES}?dryRun=All", {"metadata": {"name": case}, "spec": body})
    assert answer.status == 422, answer.body
    cause = answer.body["details"]["causes"][0]
    assert f"{cause['field']}: {cause['message']}".startswith(message)


def test_a_class_is_applied_changed_and_checked_again(served: Any, namespace: str) -> None:
    path = f"{CLASSES}/{namespace}.example.com"
    applied = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": f"{namespace}.example.com"},
        "spec": {"extendedResourceName": f"example.com/{namespace}", "config": [{"opaque": OPAQUE}]},
    }
    created = served.request("PATCH", f"{path}?fieldManager=m", applied, content_type=APPLY)
    assert (created.status, created.body["metadata"]["generation"]) == (201, 1)
    changed = served.request("PATCH", path, {"spec": {"extendedResourceName": "example.com/x"}}, content_type=MERGE)
    assert changed.body["metadata"]["generation"] == 2
    refused = served.request("PATCH", path, {"spec": {"extendedResourceName": "x"}}, content_type=MERGE)
    assert refused.status == 422
    assert served.request("DELETE", path).body["kind"] == "DeviceClass"
