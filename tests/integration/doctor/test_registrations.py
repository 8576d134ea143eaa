"""Registrations that are missing, that leave out too much or too little, and on bad terms."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from app.doctor.model import Severity
from app.kube.resources import CONFIG_MAPS, DEPLOYMENTS, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from app.registration import further_webhooks
from tests.integration.doctor.installation import Place
from tests.integration.doctor.patient import HOME

NAME = "kubernetes.io/metadata.name"
MANAGED_BY = "/metadata/labels/app.kubernetes.io~1managed-by"
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
        (
            "clientConfig/service/path",
            "/wrong",
            Severity.error,
            "clientConfig.service.path is /wrong, and Berth registers /mutate",
        ),
        ("reinvocationPolicy", "Never", Severity.warning, "reinvocationPolicy is Never, and Berth registers IfNeeded"),
        ("rules/0/operations", ["UPDATE"], Severity.error, "rules is [{"),
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
    await place.type(finding.command)
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
        await place.type(finding.command)
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


@pytest.mark.parametrize(
    ("selector", "kept"),
    [
        (
            {"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["mine", "blue", "green", HOME]}]},
            ["mine", HOME, "kube-system"],
        ),
        ({"matchLabels": {"network": "yes"}}, ["kube-system", HOME]),
    ],
)
async def test_tenants_are_let_in_and_nobody_else(place: Place, selector: dict[str, Any], kept: list[str]) -> None:
    """Above all not the system's namespace, from which the cluster could not heal itself; by any of the commands."""
    await place.register("namespaceSelector", selector)
    for name in ("blue", "green"):
        await namespace(place, name, **{"berth.dev/tenant": name})
    findings = [one for one in await place.complaints("registrations") if one.subject.startswith("Namespace")]
    assert [one.subject for one in findings] == ["Namespace blue", "Namespace green"]
    await place.mends(findings[-1])
    found = await place.client.get(MUTATING_WEBHOOKS, "berth")
    (expression,) = found["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert expression["values"] == kept


async def confine(place: Place, *webhooks: dict[str, Any]) -> None:
    """Has the webhook confine tenants, and adds webhooks to the configuration for checks."""
    patch = {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--confine-tenants"}
    await place.change(DEPLOYMENTS, "berth-webhook", patch)
    additions = [{"op": "add", "path": "/webhooks/-", "value": webhook} for webhook in webhooks]
    await place.change(VALIDATING_WEBHOOKS, "berth", *additions)


async def isolating(place: Place) -> list[dict[str, Any]]:
    """What asks about Pods and Pod templates in tenants' namespaces."""
    (webhook,) = (await place.client.get(VALIDATING_WEBHOOKS, "berth"))["webhooks"]
    return further_webhooks("tenants", webhook, exempt=("kube-system", HOME))


CHECKING = "ValidatingWebhookConfiguration berth, webhook attachments.berth.dev"


async def test_confined_tenants_whose_pods_nobody_checks(place: Place) -> None:
    await confine(place)
    finding = await place.only_complaint("registrations")
    assert (finding.severity, finding.subject) == (Severity.error, CHECKING)
    assert finding.message == (
        "Berth is not asked about pods, podtemplates, replicationcontrollers, pods/ephemeralcontainers, daemonsets, "
        "deployments, replicasets, statefulsets, cronjobs, jobs, resourceclaims, resourceclaimtemplates in tenants' "
        "namespaces"
    )
    assert "keep Pods of all other namespaces from being scheduled" in finding.consequence
    await place.mends(finding)
    assert (await place.client.get(VALIDATING_WEBHOOKS, "berth"))["webhooks"][1:] == await _as_stored(place)


async def _as_stored(place: Place) -> list[dict[str, Any]]:
    stored = (await place.client.get(VALIDATING_WEBHOOKS, "berth"))["webhooks"]
    defaults = {key: value for key, value in stored[0].items() if key not in ("rules", "namespaceSelector")}
    return further_webhooks("tenants", defaults | {"objectSelector": {}}, exempt=("kube-system", HOME))


@pytest.mark.parametrize(
    ("field", "value", "unasked"),
    [
        ("objectSelector", {"matchLabels": {"checked": "yes"}}, "pods, podtemplates, replicationcontrollers, "),
        ("namespaceSelector", {"matchLabels": {"checked": "yes"}}, "pods, podtemplates, replicationcontrollers, "),
        ("matchConditions", [{"name": "a", "expression": "'a' == 'b'"}], "pods, podtemplates, replicationcontrollers"),
        ("rules/1/operations", ["CREATE"], "daemonsets, deployments, replicasets, statefulsets in tenants' namespaces"),
        ("rules/2/resources", ["jobs"], "cronjobs in tenants' namespaces"),
    ],
)
async def test_a_check_of_tenants_that_leaves_something_out(
    place: Place, field: str, value: object, unasked: str
) -> None:
    """The command puts the webhook right where it is: none of the same name is added."""
    await confine(place, *await isolating(place))
    assert await place.complaints() == []
    operation = {"op": "add", "path": f"/webhooks/1/{field}", "value": value}
    await place.change(VALIDATING_WEBHOOKS, "berth", operation)
    finding = await place.only_complaint("registrations")
    assert finding.message.startswith(f"Berth is not asked about {unasked}")
    await place.mends(finding)


async def test_a_tenant_by_its_name_alone_is_not_checked(place: Place) -> None:
    """The webhook that goes by the name is missing: the label takes its place."""
    labeled, _ = await isolating(place)
    await confine(place, labeled)
    await namespace(place, "tenant-blue")
    finding = await place.only_complaint("registrations")
    assert (finding.severity, finding.subject) == (Severity.error, "Namespace tenant-blue")
    assert finding.message.startswith("belongs to tenant blue, and Berth is not asked about its pods, ")
    assert finding.command == "kubectl label namespace tenant-blue berth.dev/tenant=blue"
    await place.mends(finding)


async def test_a_tenant_that_the_selector_of_its_check_leaves_out(place: Place) -> None:
    labeled, by_name = await isolating(place)
    labeled["namespaceSelector"]["matchExpressions"][1]["values"].append("blue")
    await confine(place, labeled, by_name)
    await namespace(place, "blue", **{"berth.dev/tenant": "blue"})
    finding = await place.only_complaint("registrations")
    assert finding.subject == "Namespace blue"
    await place.mends(finding)


async def test_without_confinement_nobody_needs_to_check_tenants(place: Place) -> None:
    await namespace(place, "tenant-blue")
    assert await place.complaints() == []


async def test_confined_tenants_cannot_opt_out(place: Place) -> None:
    await confine(place, *await isolating(place))
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
    " || 'v1.multus-cni.io/default-network' in object.metadata.annotations"
    " || 'berth.dev/dpu-of-host' in object.metadata.annotations)",
}


async def test_conditions_that_let_everything_through_that_needs_us(place: Place) -> None:
    await place.register("matchConditions", [CONDITION])
    assert await place.complaints() == []


async def inject_by(place: Place, *labels: str) -> None:
    entry = {"op": "add", "path": "/metadata/annotations", "value": {"k8s.v1.cni.cncf.io/networks": "net"}}
    text = json.dumps({"user-defined-injections": dict.fromkeys(labels, entry)})
    await place.patient.create(CONFIG_MAPS, "nri-control-switches", namespace=HOME, data={"config.json": text})


async def test_conditions_that_forget_the_control_switches(place: Place) -> None:
    """A label that the ConfigMap injects for, and that no condition names."""
    await place.register("matchConditions", [CONDITION])
    await inject_by(place, "team/network")
    await place.change(MUTATING_WEBHOOKS, "berth", {"op": "add", "path": MANAGED_BY, "value": "Helm"})
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
        "its matchConditions leave out Pods for their annotation berth.dev/dpu-of-host",
    ]
    # In whatever order and however often they are typed: none undoes what another mended.
    await place.mends(findings[-1])


async def test_the_release_keeps_the_labels_that_it_knows(place: Place) -> None:
    """A list given to Helm takes the place of the list before: it names every label of the ConfigMap."""
    known = {
        "name": "known",
        "expression": f"({CONDITION['expression']}) || "
        "has(object.metadata.labels) && 'team/a' in object.metadata.labels",
    }
    await place.register("matchConditions", [known])
    await inject_by(place, "team/a", "team/b", "team/c")
    await place.change(MUTATING_WEBHOOKS, "berth", {"op": "add", "path": MANAGED_BY, "value": "Helm"})
    findings = await place.complaints("registrations")
    assert [one.message.partition("label ")[2].partition(" ")[0] for one in findings] == ["team/b", "team/c"]
    upgrade = f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values"
    assert {one.command.rpartition(" && ")[2] for one in findings} == {
        f"{upgrade} --set 'webhook.injectionLabels={{team/a,team/b,team/c}}'"
    }


async def test_conditions_that_have_no_value_are_said_to_have_none(place: Place) -> None:
    """Whoever sees no complaint must not take that for an answer."""
    await place.register("matchConditions", [{"name": "odd", "expression": "object.metadata.nothing == 'x'"}])
    (said,) = [one for one in await place.examine("registrations") if one.severity is not Severity.ok]
    assert (said.severity, said.subject) == (Severity.info, WEBHOOK)
    assert said.message.startswith("its matchConditions have no value here: ")


async def test_side_effects_that_are_not_known(place: Place) -> None:
    """As an older API let it be stored; nobody can store it today."""
    key, hooks = ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"), place.patient.cluster.storage
    stored = await place.client.get(MUTATING_WEBHOOKS, "berth")
    stored["webhooks"][0]["sideEffects"] = "Unknown"
    hooks.update(key, stored)
    finding = await place.only_complaint("registrations")
    assert (finding.severity, finding.message) == (
        Severity.error,
        "sideEffects is Unknown, and Berth registers NoneOnDryRun",
    )
    await place.mends(finding)


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


async def test_a_selector_that_was_emptied_gets_its_opt_out_back(place: Place) -> None:
    """By the command of kubectl too, and where another webhook is for tenants, they are left to that one."""
    await place.register("namespaceSelector", {})
    for tenants in (False, True):
        if tenants:
            webhook = (await place.client.get(MUTATING_WEBHOOKS, "berth"))["webhooks"][0]
            expressions = [
                {"key": "berth.dev/tenant", "operator": "Exists"},
                {"key": NAME, "operator": "NotIn", "values": ["kube-system", HOME]},
            ]
            strict = webhook | {"name": "tenants.other.example", "namespaceSelector": {"matchExpressions": expressions}}
            await place.change(MUTATING_WEBHOOKS, "berth", {"op": "add", "path": "/webhooks/-", "value": strict})
        finding = await place.only_complaint("registrations")
        patch = json.loads(shlex.split(finding.command)[-1])
        keys = [one["key"] for one in patch[-1]["value"]["matchExpressions"]]
        assert keys == ["berth.dev/inject", *(["berth.dev/tenant"] if tenants else []), NAME]


async def test_a_short_timeout_is_a_choice(place: Place) -> None:
    """The reason still comes in time: less is waited for it."""
    await place.register("timeoutSeconds", 3)
    (finding,) = [one for one in await place.examine("registrations") if one.severity is Severity.info]
    assert finding.message == "timeoutSeconds is 3: reviews have 2.7 s instead of 8 s"
    await place.type(finding.command)
    assert {one.severity for one in await place.examine("registrations")} == {Severity.ok}


async def test_an_opt_out_that_no_selector_reads(place: Place) -> None:
    """As `berth certs install` registers: the label has no effect."""
    names = {"key": NAME, "operator": "NotIn", "values": ["kube-system", HOME]}
    await place.register("namespaceSelector", {"matchExpressions": [names]})
    await namespace(place, "plain", **{"berth.dev/inject": "false"})
    told = {one.subject: one for one in await place.examine("registrations") if one.severity is Severity.info}
    finding = told["Namespace plain"]
    assert finding.consequence == "the label has no effect: Berth injects into the Pods there"
    await place.type(finding.command)
    told = {one.subject: one for one in await place.examine("registrations") if one.severity is Severity.info}
    assert told["Namespace plain"].consequence == "nothing is injected there"


async def test_an_opt_out_that_confinement_does_not_heed(place: Place) -> None:
    """The strict webhook is called for the tenant's namespace, whatever its label says."""
    expressions = [
        {"key": NAME, "operator": "NotIn", "values": ["kube-system", HOME]},
        {"key": "berth.dev/inject", "operator": "NotIn", "values": ["false"]},
    ]
    for index, more in enumerate((expressions, [*expressions[:1], {"key": "berth.dev/tenant", "operator": "Exists"}])):
        webhook = (await place.client.get(MUTATING_WEBHOOKS, "berth"))["webhooks"][0]
        value = webhook | {"name": f"w{index}.other.example", "namespaceSelector": {"matchExpressions": more}}
        operation = {"op": "add" if index else "replace", "path": f"/webhooks/{index}", "value": value}
        await place.change(MUTATING_WEBHOOKS, "berth", operation)
    await namespace(place, "blue", **{"berth.dev/tenant": "blue", "berth.dev/inject": "false"})
    await namespace(place, "plain", **{"berth.dev/inject": "false"})
    told = {one.subject: one for one in await place.examine("registrations") if one.severity is Severity.info}
    assert told["Namespace plain"].consequence == "nothing is injected there"
    assert "stay confined" in told["Namespace blue"].consequence
