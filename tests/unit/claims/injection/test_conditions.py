"""Match conditions: which objects an API server sends."""

from __future__ import annotations

from typing import Any

import pytest

from app.cel.matchconditions import Attributes, UserInfo, holds
from app.claims.permissions import ASKS, INJECTION_WEBHOOKS
from app.networks.places import INJECT_TEMPLATE

JSON = dict[str, Any]
REQUEST = Attributes(
    *("CREATE", "", "v1", "Pod", "pods", "", "ns", "p"),
    dry_run=False,
    user=UserInfo("a"),
    old_object=None,
    options=None,
)


def asked(expression: str, obj: JSON) -> bool:
    return holds([{"name": "c", "expression": expression}], REQUEST, obj)


def condition(name: str) -> str:
    (found,) = (one for one in INJECTION_WEBHOOKS if one.name == name)
    return " || ".join(term.expression for one in found.conditions for term in one.terms)


@pytest.mark.parametrize(
    ("spec", "asks"),
    [
        ({"containers": [{"name": "a"}]}, False),
        ({"containers": [{"resources": {}}, {"resources": {"limits": {"berth.dev/x": "1"}}}]}, True),
        ({"containers": [{"resources": {"limits": {"cpu": "1"}, "requests": {"berth.dev/x": "1"}}}]}, True),
        ({"containers": [{"resources": {"limits": {"example.com/berth.dev": "1"}}}]}, False),
        ({"containers": [{}], "initContainers": [{"resources": {"limits": {"berth.dev/x": "1"}}}]}, True),
    ],
)
def test_pods_that_ask_for_a_definition_are_sent(spec: JSON, *, asks: bool) -> None:
    expression = " || ".join(one.expression for one in ASKS)
    assert asked(expression, {"metadata": {}, "spec": spec}) is asks


@pytest.mark.parametrize(
    ("metadata", "asks"),
    [
        ({}, False),
        ({"labels": {"a": "b"}, "annotations": {INJECT_TEMPLATE: "false"}}, False),
        ({"labels": {INJECT_TEMPLATE: "true"}}, True),
        ({"annotations": {INJECT_TEMPLATE: "true"}}, True),
    ],
)
def test_jobs_that_ask_for_it_are_sent(metadata: JSON, *, asks: bool) -> None:
    assert asked(condition("pod-templates"), {"metadata": metadata, "spec": {}}) is asks


def test_pods_with_claims_and_classes_with_definitions_are_sent() -> None:
    for claims, asks in ((None, False), ([], False), ([{"name": "a"}], True)):
        spec = {} if claims is None else {"resourceClaims": claims}
        assert asked(condition("claim-pods"), {"metadata": {}, "spec": spec}) is asks
    for marks, asks in ((None, False), ({"a": "b"}, False), ({"berth.dev/claim-template": "x"}, True)):
        metadata = {} if marks is None else {"annotations": marks}
        assert asked(condition("device-classes"), {"metadata": metadata, "spec": {}}) is asks
