"""What DeviceClasses may say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.resource_claims import APPLY, GROUP, MERGE

JSON = dict[str, Any]
CLASSES = f"{GROUP}/deviceclasses"
OPAQUE = {"driver": "d.example.com", "parameters": {"a": 1}}
EXTENDED = "spec.extendedResourceName: Invalid value:"
NO_DOMAIN = "a name must be a domain-prefixed path, such as 'example.com/my-prop'"


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
    "extended-plain": ({"extendedResourceName": "foo"}, f'{EXTENDED} "foo": {NO_DOMAIN}'),
    "extended-native": (
        {"extendedResourceName": "kubernetes.io/foo"},
        f'{EXTENDED} "kubernetes.io/foo": must not have "kubernetes.io/" domain',
    ),
    "extended-nativeend": (
        {"extendedResourceName": "nokubernetes.io/foo"},
        f'{EXTENDED} "nokubernetes.io/foo": must not have "kubernetes.io/" domain',
    ),
    "extended-req": (
        {"extendedResourceName": "requests.x/foo"},
        f'{EXTENDED} "requests.x/foo": must not have "requests." prefix',
    ),
    "extended-empty": ({"extendedResourceName": ""}, f'{EXTENDED} "": {NO_DOMAIN}'),
    "extended-noname": ({"extendedResourceName": "a/"}, f'{EXTENDED} "a/": name part must be non-empty'),
    "extended-bad": (
        {"extendedResourceName": "example.com/f_-"},
        f'{EXTENDED} "example.com/f_-": name part must consist of alphanumeric characters',
    ),
    "extended-domain": (
        {"extendedResourceName": "A/b"},
        f'{EXTENDED} "A/b": prefix part a lowercase RFC 1123 subdomain',
    ),
    "extended-two": (
        {"extendedResourceName": "a/b/c"},
        f'{EXTENDED} "a/b/c": a valid label key must consist of alphanumeric characters',
    ),
    "extended-last": (
        {"extendedResourceName": "a", "selectors": [{}]},
        "spec.selectors[0].cel: Required value",
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
