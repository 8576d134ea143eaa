"""Registrations that are missing, that leave out too much or too little, and on bad terms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.doctor.model import Severity
from app.kube.resources import CONFIG_MAPS, DEPLOYMENTS, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from tests.doctor.installation import Place
from tests.doctor.patient import HOME

NAME = "kubernetes.io/metadata.name"
WEBHOOK = "MutatingWebhookConfiguration berth, webhook pods.berth.dev"


async def test_nothing_is_registered(place: Place) -> None:
    await place.client.delete(MUTATING_WEBHOOKS, "berth")
    finding = await place.only_complaint("registrations")
    assert (finding.severity, finding.subject) == (Severity.error, "MutatingWebhookConfiguration")
    assert finding.consequence == "nothing is injected into any Pod"
    assert finding.command.endswith("--reset-then-reuse-values --set webhook.enabled=true")


@pytest.mark.parametrize(
    ("field", "value", "severity", "message"),
    [
        ("timeoutSeconds", 3, Severity.warning, "timeoutSeconds is 3, and Berth takes up to 8 s to say why it cannot"),
        ("reinvocationPolicy", "Never", Severity.warning, "reinvocationPolicy is Never"),
        ("rules/0/operations", ["UPDATE"], Severity.error, "its rules do not name the creation of Pods"),
        ("namespaceSelector", {}, Severity.error, f"does not leave out namespace kube-system and {HOME}"),
        (
            "namespaceSelector",
            {"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["kube-system", "mine"]}]},
            Severity.error,
            f"does not leave out namespace {HOME}",
        ),
    ],
)
async def test_bad_terms_and_the_command_that_mends_them(
    place: Place, field: str, value: object, severity: Severity, message: str
) -> None:
    await place.register(field, value)
    finding = await place.only_complaint("registrations")
    assert (finding.severity, finding.subject) == (severity, WEBHOOK)
    assert finding.message.startswith(message)
    assert finding.consequence
    assert finding.command.startswith("kubectl patch mutatingwebhookconfigurations berth --type=json --patch ")
    await place.mends(finding)


async def test_a_selector_keeps_what_it_leaves_out_already(place: Place) -> None:
    """The command adds our namespace to those that somebody named."""
    selector = {"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["kube-system", "mine"]}]}
    await place.register("namespaceSelector", selector)
    finding = await place.only_complaint("registrations")
    if await place.type(finding.command):
        found = await place.client.get(MUTATING_WEBHOOKS, "berth")
        (expression,) = found["webhooks"][0]["namespaceSelector"]["matchExpressions"]
        assert expression["values"] == ["kube-system", "mine", HOME]


async def test_ignored_failures_are_a_choice(place: Place) -> None:
    """Said, with what follows from it; no complaint."""
    await place.register("failurePolicy", "Ignore")
    findings = await place.examine("registrations")
    (finding,) = [one for one in findings if one.severity is Severity.info]
    assert (finding.subject, finding.message) == (WEBHOOK, "failurePolicy is Ignore")


async def test_kinds_that_berth_is_not_asked_about(place: Place) -> None:
    rules = [
        {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": ["k8s.cni.cncf.io"],
            "apiVersions": ["v1"],
            "resources": ["network-attachment-definitions"],
        },
        {
            "operations": ["CREATE"],
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "resources": ["*"],
        },
    ]
    await place.register("rules", rules, resource=VALIDATING_WEBHOOKS)
    findings = await place.complaints("registrations")
    assert {one.message.rpartition(" ")[2] for one in findings} == {
        *("tenantworkloadrules", "adminworkloadrules", "tenants", "workloadrules"),
        *("uvspods", "uvsdaemonsets", "uvssecrets", "uvsconfigmaps"),
    }
    assert "asked about the UPDATE of" in findings[0].message
    for finding in findings:
        if not await place.type(finding.command):
            return
    assert await place.complaints("registrations") == []


async def namespace(place: Place, name: str, **labels: str) -> None:
    await place.client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})


async def test_a_tenant_that_is_left_out(place: Place) -> None:
    """By the label that opts out: the command takes it off."""
    expressions = [
        {"key": NAME, "operator": "NotIn", "values": ["kube-system", HOME]},
        {"key": "berth.dev/inject", "operator": "NotIn", "values": ["false"]},
    ]
    await place.register("namespaceSelector", {"matchExpressions": expressions})
    await namespace(place, "tenant-blue", **{"berth.dev/inject": "false"})
    finding = await place.only_complaint("registrations")
    assert (finding.severity, finding.subject) == (Severity.error, "Namespace tenant-blue")
    assert finding.message == "belongs to tenant blue, and no webhook is called for its Pods"
    assert finding.command == "kubectl label namespace tenant-blue berth.dev/inject-"
    await place.mends(finding)


async def test_a_selector_that_leaves_tenants_out(place: Place) -> None:
    """The command drops that part of the selector, and keeps the rest."""
    exempt = {"key": NAME, "operator": "NotIn", "values": ["kube-system", HOME]}
    nobodys = {"key": "berth.dev/tenant", "operator": "DoesNotExist"}
    await place.register("namespaceSelector", {"matchExpressions": [exempt, nobodys]})
    await namespace(place, "blue", **{"berth.dev/tenant": "blue"})
    finding = await place.only_complaint("registrations")
    assert finding.subject == "Namespace blue"
    await place.mends(finding)
    found = await place.client.get(MUTATING_WEBHOOKS, "berth")
    assert exempt in found["webhooks"][0]["namespaceSelector"]["matchExpressions"]


async def test_confined_tenants_cannot_opt_out(place: Place) -> None:
    patch = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--confine-tenants"}]
    await place.change(DEPLOYMENTS, "berth-webhook", *patch)
    await namespace(place, "tenant-blue")
    assert await place.complaints("registrations") == []
    selector = {"matchExpressions": [{"key": "berth.dev/inject", "operator": "NotIn", "values": ["false"]}]}
    await place.register("objectSelector", selector)
    finding = await place.only_complaint("registrations")
    assert (
        finding.message == "belongs to tenant blue, and its Pods can opt out of every webhook that is called for them"
    )
    await place.mends(finding)


CONDITION: dict[str, Any] = {
    "name": "asks-for-networks",
    "expression": "has(object.metadata.annotations) && ('k8s.v1.cni.cncf.io/networks' in object.metadata.annotations"
    " || 'v1.multus-cni.io/default-network' in object.metadata.annotations)",
}


async def test_conditions_that_let_everything_through_that_needs_us(place: Place) -> None:
    await place.register("matchConditions", [CONDITION])
    assert await place.complaints() == []


async def test_conditions_that_forget_the_control_switches(place: Place) -> None:
    """A label that the ConfigMap injects for, and that no condition names."""
    await place.register("matchConditions", [CONDITION])
    entry = {"op": "add", "path": "/metadata/annotations", "value": {"k8s.v1.cni.cncf.io/networks": "net"}}
    text = json.dumps({"user-defined-injections": {"team/network": entry}})
    await place.patient.create(CONFIG_MAPS, "nri-control-switches", namespace=HOME, data={"config.json": text})
    finding = await place.only_complaint("registrations")
    assert finding.message == (
        f"its matchConditions leave out Pods for their label team/network of ConfigMap {HOME}/nri-control-switches"
    )
    assert finding.command.endswith("--set 'webhook.injectionLabels={team/network}'")
    unlabeled = {"op": "remove", "path": "/metadata/labels"}
    await place.change(MUTATING_WEBHOOKS, "berth", unlabeled)
    await place.mends(await place.only_complaint("registrations"))


async def test_conditions_that_forget_an_annotation(place: Place) -> None:
    narrow = {"name": "narrow", "expression": "object.metadata.name == 'x'"}
    await place.register("matchConditions", [narrow])
    findings = await place.complaints("registrations")
    assert [one.message for one in findings] == [
        "its matchConditions leave out Pods for their annotation k8s.v1.cni.cncf.io/networks",
        "its matchConditions leave out Pods for their annotation v1.multus-cni.io/default-network",
    ]


async def test_another_injector_beside_berth(place: Place) -> None:
    hook = {
        "name": "old.k8s.cni.cncf.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "kube-system", "name": "old", "path": "/mutate"}},
        "rules": [],
        "sideEffects": "None",
    }
    await place.patient.create(MUTATING_WEBHOOKS, "network-resources-injector-mutating-config", webhooks=[hook])
    finding = await place.only_complaint("registrations")
    assert finding.consequence == "resources are asked for twice, and Pods stay Pending"
    assert finding.command == (
        "kubectl delete mutatingwebhookconfigurations network-resources-injector-mutating-config"
    )
    await place.mends(finding)
