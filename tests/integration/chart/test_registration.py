"""For which objects an API server calls us: put to the test by one that cannot reach us, so that a call is a refusal."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from app.admission.pods import INJECT
from app.errors import ApiError
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    PODS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.placement.model import DPU_OF_HOST, TENANT_LABEL
from app.registration import Installation, further_webhooks
from app.workloads.model import WORKLOAD_RULES
from app.workloads.tenant_pods import CLAIMS, TEMPLATES
from tests.support.chart import JSON, NAMESPACE, Render, Server
from tests.support.chart_combinations import AGENT, COMBINATIONS
from tests.support.paths import ROOT
from tests.support.real_parts import CLAIMS as SERVE_CLAIMS
from tests.support.real_parts import real_minor

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
    attachment = NETWORK_ATTACHMENTS.body({"name": "net"})
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
        (MUTATING_WEBHOOKS.kind, installed.registration(MUTATING_WEBHOOKS, bundle="")),
        (VALIDATING_WEBHOOKS.kind, installed.registration(VALIDATING_WEBHOOKS, bundle="")),
    ):
        ours = [rule for webhook in rendered.one(kind)["webhooks"] for rule in webhook["rules"]]
        theirs = [rule for webhook in other["webhooks"] for rule in webhook["rules"]]
        assert [{k: v for k, v in rule.items() if k != "scope"} for rule in ours] == theirs
        assert {webhook["sideEffects"] for webhook in rendered.one(kind)["webhooks"]} == {
            webhook["sideEffects"] for webhook in other["webhooks"]
        }


# Pods are admitted by other webhooks first, which nobody answers here.
NO_MUTATION: JSON = {name: {"failurePolicy": "Ignore", "timeoutSeconds": 1} for name in ("pods", "tenantPods")}
ISOLATED = VALUES | {"webhook": VALUES["webhook"] | {"webhooks": NO_MUTATION}}
POD_SPEC: JSON = {"containers": [{"name": "app", "image": "app"}], "restartPolicy": "Always"}
TEMPLATE: JSON = {"metadata": {"labels": {"app": "x"}}, "spec": POD_SPEC}
SELECTED: JSON = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
JOB: JSON = {"template": TEMPLATE | {"spec": POD_SPEC | {"restartPolicy": "Never"}}}
CLAIM: JSON = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu"}}]}}
BODIES: dict[tuple[str, str, str], JSON] = {
    ("", "v1", "Pod"): {"spec": POD_SPEC},
    ("", "v1", "PodTemplate"): {"template": TEMPLATE},
    ("", "v1", "ReplicationController"): {"spec": {"selector": {"app": "x"}, "template": TEMPLATE}},
    ("apps", "v1", "DaemonSet"): {"spec": SELECTED},
    ("apps", "v1", "Deployment"): {"spec": SELECTED},
    ("apps", "v1", "ReplicaSet"): {"spec": SELECTED},
    ("apps", "v1", "StatefulSet"): {"spec": SELECTED | {"serviceName": "x"}},
    ("batch", "v1", "CronJob"): {"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": JOB}}},
    ("batch", "v1", "Job"): {"spec": JOB},
    ("resource.k8s.io", "v1", "ResourceClaim"): {"spec": CLAIM},
    ("resource.k8s.io", "v1", "ResourceClaimTemplate"): {"spec": {"spec": CLAIM}},
}
ISOLATION = {
    "team": "",
    "monitoring": "",
    "kube-system": "",
    NAMESPACE: "",
    "tenant-one": "tenant-isolation",
    "tenant-quiet": "tenant-isolation",
    "tenant-unlabeled": "tenant-isolation-by-name",
}


async def test_the_api_server_asks_us_about_every_pod_template_in_tenants_namespaces_and_in_no_others(
    server: Server,
) -> None:
    await server.install(ISOLATED)
    for name, labels in SPACES.items():
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        await server.client.create(NAMESPACES, body)
    called = {}
    for (group, version, kind), body in BODIES.items():
        resource = Resource(group, version, f"{kind.lower()}s", kind)
        if not await _is_served(server, resource):
            continue
        # The opt-out counts for nothing here.
        metadata = {"generateName": "app-", "labels": {INJECT: "false", "app": "x"}}
        written = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, **body}
        called |= {(kind, namespace): await _called(server, resource, written, namespace) for namespace in ISOLATION}
    kinds = {kind for kind, _ in called}
    assert called == {(kind, namespace): webhook for kind in kinds for namespace, webhook in ISOLATION.items()}
    assert {"Pod", "Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob"} <= kinds
    if server.cluster is None:
        served = {kind for group, _, kind in BODIES if group != "resource.k8s.io" or real_minor() >= SERVE_CLAIMS}
        assert kinds == served


async def test_the_api_server_asks_us_about_changes_of_what_tenants_run(server: Server) -> None:
    await server.install(ISOLATED)
    await server.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue"}})
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app"}, "spec": SELECTED}
    await server.client.create(DEPLOYMENTS, deployment, namespace="blue")
    await server.client.create(PODS, _pod({"name": "app"}), namespace="blue")
    await server.client.patch(NAMESPACES, "blue", {"metadata": {"labels": {TENANT_LABEL: "blue"}}}, patch_type="merge")
    changes: list[tuple[Resource, JSON, str]] = [
        (DEPLOYMENTS, {"spec": {"paused": True}}, ""),
        (PODS, {"metadata": {"labels": {"a": "b"}}}, ""),
        # The sandbox cannot add one; webhooks are called for a change of nothing, too.
        (PODS, {}, "ephemeralcontainers"),
    ]
    for resource, change, subresource in changes:
        with pytest.raises(ApiError, match=r'failed calling webhook "tenant-isolation\.berth\.dev"'):
            await _patch(server, resource, change, subresource)
    # Kubelets do not wait for us.
    await _patch(server, PODS, {"status": {"conditions": [{"type": "Seen", "status": "True"}]}}, "status")


async def test_without_conditions_no_pod_waits_for_the_check_of_tenants(server: Server) -> None:
    await server.install(
        {"webhook": ISOLATED["webhook"] | {"matchConditions": {"enabled": False}, "controlSwitches": {}}}
    )
    for name in ("tenant-unlabeled", "blue"):
        labels = {TENANT_LABEL: name} if name == "blue" else {}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        await server.client.create(NAMESPACES, body)
    called = {name: await _called(server, PODS, _pod({}), name) for name in ("default", "tenant-unlabeled", "blue")}
    assert called == {"default": "", "tenant-unlabeled": "", "blue": "tenant-isolation"}


async def _patch(server: Server, resource: Resource, change: JSON, subresource: str) -> None:
    await server.client.patch(
        resource, "app", change, patch_type="strategic", namespace="blue", subresource=subresource or None
    )


async def _is_served(server: Server, resource: Resource) -> bool:
    try:
        await server.client.list_page(resource)
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


def test_only_where_tenants_are_confined_their_pods_are_checked(render: Render) -> None:
    names = [webhook["name"] for webhook in render({}).one(VALIDATING_WEBHOOKS.kind)["webhooks"]]
    assert names == ["attachments.berth.dev", "rules.berth.dev"]


def test_the_chart_asks_about_the_kinds_that_the_check_knows(render: Render) -> None:
    """A kind that the check learns is registered by the chart, the sandbox and the doctor alike."""
    webhooks = render(VALUES).one(VALIDATING_WEBHOOKS.kind)["webhooks"]
    ours = [webhook for webhook in webhooks if webhook["name"].startswith("tenant-isolation")]
    shared = {key: value for key, value in webhooks[0].items() if key not in ("name", "rules", "namespaceSelector")}
    assert ours == further_webhooks("tenants", shared, exempt=("kube-system", NAMESPACE))
    assert {kind for _, _, kind in BODIES} == {kind for _, kind in (*TEMPLATES, *CLAIMS)}


def test_terms_of_each_webhook_come_from_values(render: Render) -> None:
    terms = {
        name: {"failurePolicy": "Ignore", "timeoutSeconds": seconds}
        for seconds, name in enumerate(("pods", "tenantPods", "attachments", "rules", "tenantIsolation"), 20)
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
        "tenant-isolation.berth.dev": ("Ignore", 24),
        "tenant-isolation-by-name.berth.dev": ("Ignore", 24),
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
