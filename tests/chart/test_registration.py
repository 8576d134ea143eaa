"""For which objects an API server calls us: put to the test by one that cannot reach us, so that a call is a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from app.certs.registration import Installation, mutating_of, validating_of
from app.errors import ApiError
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    PODS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.networks.model import DEFAULT_NETWORK, INJECT, NETWORKS
from app.placement.model import DPU_OF_HOST, TENANT_LABEL
from app.workloads.model import WORKLOAD_RULES
from tests.chart.combinations import AGENT, COMBINATIONS
from tests.chart.conftest import JSON, NAMESPACE, Render, Server

ROOT = Path(__file__).parents[2]
VALUES: JSON = {
    "webhook": {
        "args": {"confineTenants": True},
        "injectionLabels": ["company.example/rdma"],
        "exemptNamespaces": ["monitoring"],
        "controlSwitches": {"create": True, "userDefinedInjections": {"sriov": {"op": "add"}}},
    },
}
SPACES: dict[str, dict[str, str]] = {
    "team": {},
    "monitoring": {},
    "quiet": {INJECT: "false"},
    "tenant-one": {TENANT_LABEL: "one"},
    "tenant-quiet": {TENANT_LABEL: "quiet", INJECT: "false"},
    "tenant-unlabeled": {},
}

ASKS: list[tuple[str, JSON, str]] = [
    ("team", {"annotations": {NETWORKS: "a"}}, "pods"),
    ("team", {"annotations": {DEFAULT_NETWORK: "a"}}, "pods"),
    ("team", {"annotations": {DPU_OF_HOST: "host"}}, "pods"),
    ("team", {"labels": {"sriov": "true"}}, "pods"),
    ("team", {"labels": {"company.example/rdma": "true"}}, "pods"),
    ("team", {"annotations": {"other": "x"}, "labels": {"sriov": "true"}}, "pods"),
    ("tenant-one", {}, "tenant-pods"),
    ("tenant-one", {"labels": {INJECT: "false"}}, "tenant-pods"),
    ("tenant-quiet", {}, "tenant-pods"),
    ("tenant-unlabeled", {}, "pods"),
    # Its label is gone; a Pod there cannot opt out all the same.
    ("tenant-unlabeled", {"labels": {INJECT: "false"}}, "pods"),
]
ASKS_NOT: list[tuple[str, JSON]] = [
    ("team", {}),
    ("team", {"annotations": {"other": "x"}, "labels": {"app": "x"}}),
    ("team", {"labels": {INJECT: "false"}, "annotations": {NETWORKS: "a"}}),
    ("quiet", {"annotations": {NETWORKS: "a"}}),
    ("monitoring", {"annotations": {NETWORKS: "a"}}),
    ("kube-system", {"annotations": {NETWORKS: "a"}}),
    (NAMESPACE, {"annotations": {NETWORKS: "a"}}),
]


def _pod(metadata: JSON) -> JSON:
    spec = {"containers": [{"name": "app", "image": "app"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "app-", **metadata}, "spec": spec}


async def _called(server: Server, resource: Resource, body: JSON, namespace: str) -> str:
    """The webhook that the API server called for an object; "" where it called none."""
    try:
        await server.client.create(resource, body, namespace=namespace)
    except ApiError as error:
        text = str(error)
        assert "failed calling webhook" in text, text
        return text.partition('webhook "')[2].partition(".berth.dev")[0]
    return ""


async def test_the_api_server_calls_us_for_pods_that_need_us_and_for_no_others(server: Server) -> None:
    await server.install(VALUES)
    for name, labels in SPACES.items():
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        await server.client.create(NAMESPACES, body)
    called = {
        (namespace, str(metadata)): await _called(server, PODS, _pod(metadata), namespace)
        for namespace, metadata in (*((n, m) for n, m, _ in ASKS), *ASKS_NOT)
    }
    assert called == {
        **{(namespace, str(metadata)): webhook for namespace, metadata, webhook in ASKS},
        **{(namespace, str(metadata)): "" for namespace, metadata in ASKS_NOT},
    }


async def test_without_conditions_the_api_server_calls_us_for_every_pod(server: Server) -> None:
    await server.install({"webhook": {"matchConditions": {"enabled": False}}})
    assert await _called(server, PODS, _pod({}), "default") == "pods"
    assert await _called(server, PODS, _pod({"labels": {INJECT: "false"}}), "default") == ""


async def test_without_conditions_an_infra_cluster_asks_us_who_may_opt_out(server: Server) -> None:
    """A selector cannot tell tenants' namespaces by their names."""
    await server.install({"webhook": {"matchConditions": {"enabled": False}, "args": {"confineTenants": True}}})
    await server.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant-x"}})
    for namespace in ("tenant-x", "default"):
        assert await _called(server, PODS, _pod({"labels": {INJECT: "false"}}), namespace) == "pods"


async def test_with_ignore_pods_start_while_nobody_answers(server: Server) -> None:
    await server.install({"webhook": {"webhooks": {"pods": {"failurePolicy": "Ignore"}}}})
    assert await _called(server, PODS, _pod({"annotations": {NETWORKS: "a"}}), "default") == ""


async def test_rules_are_checked_wherever_they_are_and_attachments_but_in_exempt_namespaces(server: Server) -> None:
    await server.install(AGENT | {"webhook": {"exemptNamespaces": ["default"]}})
    (definition,) = yaml.safe_load_all((ROOT / "app/networks/crds/network-attachment-definitions.yaml").read_text())
    await server.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    await server.served(NETWORK_ATTACHMENTS)
    await server.served(WORKLOAD_RULES)
    rule = yaml.safe_load((ROOT / "examples/workload-api/tenant1-rule1.yaml").read_text())
    attachment = {
        "apiVersion": NETWORK_ATTACHMENTS.api_version,
        "kind": NETWORK_ATTACHMENTS.kind,
        "metadata": {"name": "net"},
    }
    called = {}
    for namespace in ("default", "kube-system", NAMESPACE, "universe"):
        body = rule | {"metadata": {"name": "rule"}}
        called[namespace] = (
            await _called(server, WORKLOAD_RULES, body, namespace),
            await _called(server, NETWORK_ATTACHMENTS, attachment, namespace),
        )
    assert called == {
        "default": ("rules", ""),
        "kube-system": ("rules", ""),
        NAMESPACE: ("rules", ""),
        "universe": ("rules", "attachments"),
    }


def test_the_chart_registers_for_the_same_kinds_as_the_installer(render: Render) -> None:
    """`berth certs install` and the chart are two ways to the same webhooks."""
    rendered, installed = render({}), Installation()
    for kind, other in (
        (MUTATING_WEBHOOKS.kind, mutating_of(installed, bundle="")),
        (VALIDATING_WEBHOOKS.kind, validating_of(installed, bundle="")),
    ):
        ours = [rule for webhook in rendered.one(kind)["webhooks"] for rule in webhook["rules"]]
        theirs = [rule for webhook in other["webhooks"] for rule in webhook["rules"]]
        assert [{k: v for k, v in rule.items() if k != "scope"} for rule in ours] == theirs
        assert {webhook["sideEffects"] for webhook in rendered.one(kind)["webhooks"]} == {
            webhook["sideEffects"] for webhook in other["webhooks"]
        }


def test_terms_of_each_webhook_come_from_values(render: Render) -> None:
    terms = {
        name: {"failurePolicy": "Ignore", "timeoutSeconds": seconds}
        for seconds, name in enumerate(("pods", "tenantPods", "attachments", "rules"), 20)
    }
    rendered = render({"webhook": {"webhooks": terms, "args": {"confineTenants": True}}})
    webhooks: list[Any] = [
        *rendered.one(MUTATING_WEBHOOKS.kind)["webhooks"],
        *rendered.one(VALIDATING_WEBHOOKS.kind)["webhooks"],
    ]
    assert {hook["name"]: (hook["failurePolicy"], hook["timeoutSeconds"]) for hook in webhooks} == {
        "pods.berth.dev": ("Ignore", 20),
        "tenant-pods.berth.dev": ("Ignore", 21),
        "attachments.berth.dev": ("Ignore", 22),
        "rules.berth.dev": ("Ignore", 23),
    }
    for hook in rendered.one(MUTATING_WEBHOOKS.kind)["webhooks"]:
        assert hook["reinvocationPolicy"] == "IfNeeded"


@pytest.mark.parametrize(
    ("name", "annotated", "bundled"),
    [("defaults", False, False), ("cert-manager", True, False), ("provided", False, True)],
)
def test_ca_bundle_is_in_the_chart_only_where_it_was_provided(
    render: Render, name: str, *, annotated: bool, bundled: bool
) -> None:
    rendered = render(COMBINATIONS[name])
    for kind in (MUTATING_WEBHOOKS.kind, VALIDATING_WEBHOOKS.kind):
        configuration = rendered.one(kind)
        expected = {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/berth-webhook"} if annotated else None
        assert configuration["metadata"].get("annotations") == expected
        for webhook in configuration["webhooks"]:
            assert ("caBundle" in webhook["clientConfig"]) is bundled


def test_what_cert_manager_issues_is_what_is_injected_and_mounted(render: Render) -> None:
    rendered = render(COMBINATIONS["cert-manager"])
    certificate = rendered.one("Certificate", "berth-webhook")["spec"]
    volumes = rendered.one("Deployment", "berth-webhook")["spec"]["template"]["spec"]["volumes"]
    assert certificate["secretName"] in [volume.get("secret", {}).get("secretName") for volume in volumes]
    assert f"berth-webhook.{NAMESPACE}.svc" in certificate["dnsNames"]
    authority = rendered.one("Certificate", "berth-webhook-ca")["spec"]
    assert authority["isCA"] is True
    issuers = {obj["metadata"]["name"]: obj["spec"] for obj in rendered.of("Issuer")}
    assert issuers[certificate["issuerRef"]["name"]] == {"ca": {"secretName": authority["secretName"]}}
    assert issuers[authority["issuerRef"]["name"]] == {"selfSigned": {}}


def test_an_issuer_of_ones_own_is_used_as_it_is(render: Render) -> None:
    rendered = render(COMBINATIONS["cert-manager with an issuer"])
    assert rendered.of("Issuer") == []
    assert rendered.one("Certificate")["spec"]["issuerRef"] == {"name": "company", "kind": "ClusterIssuer"}
