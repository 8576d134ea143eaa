"""What a registered webhook lacks, beside the one that Berth would register."""

from __future__ import annotations

from typing import Any

import pytest

from app.doctor.webhooks import Registered, differences, uncovered, wanted_of
from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from app.registration import Installation, Terms, further_webhooks, pods_to
from app.registry import REVIEWED, webhooks_of
from app.wiring import Webhook

JSON = dict[str, Any]
SERVICE = {"namespace": "berth-system", "name": "berth-webhook", "path": "/mutate", "port": 443}


def registered(webhook: JSON, resource: Resource = MUTATING_WEBHOOKS) -> Registered:
    return Registered(resource, {"metadata": {"name": "berth"}}, 0, webhook)


def of_pods(**fields: object) -> Registered:
    (webhook,) = pods_to({"service": SERVICE}, name="berth", webhook="pods.berth.dev", terms=Terms())["webhooks"]
    return registered(webhook | fields)


@pytest.mark.parametrize(
    "harmless",
    [
        {},
        {"matchPolicy": "Equivalent", "objectSelector": {}},
        {"clientConfig": {"service": SERVICE, "caBundle": "Zm9v"}},
        {"clientConfig": {"url": "https://192.0.2.1/elsewhere"}},
        {"admissionReviewVersions": ["v1beta1", "v1"]},
        {"sideEffects": "None"},
        {"timeoutSeconds": 30, "failurePolicy": "Ignore"},
        {"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]},
    ],
)
def test_what_others_add_and_what_is_wider_is_no_difference(harmless: JSON) -> None:
    assert list(differences(of_pods(**harmless))) == []


@pytest.mark.parametrize(
    ("fields", "field", "has", "wanted"),
    [
        ({"reinvocationPolicy": "Never"}, "reinvocationPolicy", "Never", "IfNeeded"),
        ({"sideEffects": "Some"}, "sideEffects", "Some", "NoneOnDryRun"),
        ({"admissionReviewVersions": ["v1beta1"]}, "admissionReviewVersions", ["v1beta1"], ["v1"]),
        ({"clientConfig": {"service": SERVICE | {"path": "/"}}}, "clientConfig/service/path", "/", "/mutate"),
    ],
)
def test_a_difference_has_the_field_and_both_values(fields: JSON, field: str, has: object, wanted: object) -> None:
    assert list(differences(of_pods(**fields))) == [(field, has, wanted)]


@pytest.mark.parametrize("name", [one.name for one in webhooks_of()])
def test_each_webhook_of_the_chart_is_as_it_would_be_registered(name: str) -> None:
    """Those of wings have rules of their own: not those for Pods."""
    (known,) = [one for one in webhooks_of() if one.name == name]
    mutating = REVIEWED[known.kind] == "mutate"
    service = SERVICE | {"path": "/mutate" if mutating else "/validate"}
    shared = pods_to({"service": service}, name="berth", webhook="x", terms=Terms())["webhooks"][0]
    (entry,) = [one for one in further_webhooks(known.kind, shared, exempt=()) if one["name"] == f"{name}.berth.dev"]
    one = registered(entry, MUTATING_WEBHOOKS if mutating else VALIDATING_WEBHOOKS)
    assert list(differences(one)) == []
    assert wanted_of(one)["rules"] == entry["rules"]


def test_what_the_installer_registers_has_no_difference() -> None:
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        (webhook,) = Installation().registration(resource, bundle="")["webhooks"]
        assert list(differences(registered(webhook, resource))) == []


def test_rules_are_covered_by_all_webhooks_together() -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    update = rule | {"operations": ["UPDATE"]}
    wanted = [rule | {"operations": ["CREATE", "UPDATE"], "resources": ["pods", "secrets"]}]
    both = [registered({"rules": [rule]}), registered({"rules": [update]})]
    assert uncovered(both, wanted) == {"secrets": ["CREATE", "UPDATE"]}
    assert uncovered(both[:1], wanted) == {"pods": ["UPDATE"], "secrets": ["CREATE", "UPDATE"]}


@pytest.mark.parametrize("known", webhooks_of(), ids=lambda known: str(known.name))
def test_what_follows_from_the_user_needs_proof_and_nothing_else(known: Webhook) -> None:
    shared = pods_to({"service": SERVICE}, name="berth", webhook="x", terms=Terms())["webhooks"][0]
    entries = further_webhooks(known.kind, shared, exempt=())
    (entry,) = [one for one in entries if one["name"] == f"{known.name}.berth.dev"]
    one = registered(entry, MUTATING_WEBHOOKS if REVIEWED[known.kind] == "mutate" else VALIDATING_WEBHOOKS)
    assert one.needs_proof == known.proven


@pytest.mark.parametrize(
    ("client", "shown"),
    [
        ({"service": SERVICE}, False),
        ({"service": SERVICE | {"path": f"/mutate/{'x' * 64}"}}, True),
        ({"url": f"https://192.0.2.1/mutate/{'x' * 64}"}, True),
        ({"url": "https://192.0.2.1"}, False),
        ({}, False),
    ],
)
def test_a_token_ends_the_path_of_a_service_or_of_a_url(client: JSON, *, shown: bool) -> None:
    assert of_pods(clientConfig=client).shows_token == shown


def test_conditions_that_read_the_containers_of_a_pod_can_be_decided() -> None:
    asks = "has(object.spec.containers) && object.spec.containers.exists(c, has(c.resources))"
    webhook = of_pods(matchConditions=[{"name": "asks", "expression": asks}])
    assert webhook.admits({"namespace": "default"}) is False


def test_no_finding_can_repeat_the_token_that_ends_a_url() -> None:
    one = of_pods(clientConfig={"url": f"https://192.0.2.1:8443/mutate/{'x' * 64}"})
    assert (one.url, one.host) == ("https://192.0.2.1:8443/mutate", "192.0.2.1")
    assert of_pods(clientConfig={"url": "https://192.0.2.1"}).url == "https://192.0.2.1"


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [("pods", True), ("pods/*", True), ("*", True), ("*/*", True), ("pods/status", False), ("*/scale", False)],
)
def test_a_rule_covers_pods_by_the_patterns_of_the_api_server(pattern: str, covered: bool) -> None:  # noqa: FBT001  a case
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": [pattern], "operations": ["CREATE"]}
    webhook = Registered(MUTATING_WEBHOOKS, {"metadata": {"name": "x"}}, 0, {"name": "x", "rules": [rule]})
    assert webhook.covers("", "pods", "CREATE") is covered
