"""What the doctor says where nothing is wrong, where nothing is installed, and to whom nothing is permitted."""

from __future__ import annotations

from app.doctor.model import Severity
from app.kube.resources import NAMESPACES
from tests.integration.doctor.installation import OWN, Place
from tests.integration.doctor.patient import HOME, Patient


async def test_a_healthy_installation_gets_no_complaint(place: Place) -> None:
    """Every check has something good to say, and nothing worse than that."""
    findings = await place.examine()
    assert [one for one in findings if one.severity > Severity.ok] == []
    assert {one.check for one in findings} == set(OWN)


async def test_where_nothing_is_installed_that_is_the_finding(place: Place) -> None:
    """Another namespace, in which nothing of Berth is; and no webhook is registered by the name of that release."""
    await place.client.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    findings = await place.examine("deployments", "registrations", namespace="elsewhere", release="other")
    assert [(one.severity, one.subject) for one in findings if one.check == "deployments"] == [(Severity.info, "Berth")]
    for resource in ("mutating", "validating"):
        await place.type(f"kubectl delete {resource}webhookconfiguration berth")
    (finding,) = await place.complaints(namespace="elsewhere", release="other")
    assert (finding.check, finding.severity, finding.message) == (
        "deployments",
        Severity.warning,
        "is not installed in namespace elsewhere, and no webhook of it is registered",
    )
    assert finding.command == "helm upgrade --install other charts/berth --namespace elsewhere --create-namespace"


async def test_expected_roles_are_missed(place: Place) -> None:
    """Only what --role names and what does not run."""
    (finding,) = await place.complaints("deployments", roles=frozenset({"webhook", "gateway"}))
    assert finding.subject == "role gateway"
    assert finding.command == (
        f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values --set gateway.enabled=true"
    )


async def test_without_rights_each_check_says_which_one_is_missing(place: Place) -> None:
    """In one finding, once each, however many checks want it; and nothing is taken for broken that was not seen."""
    (finding,) = await place.complaints(kubeconfig=place.patient.kubeconfig_of("nobody"))
    assert finding.severity is Severity.warning
    rights = finding.message.removeprefix("not checked: you have no right to ").split("; ")
    assert sorted(rights) == [
        "list customresourcedefinitions, mutatingwebhookconfigurations in the whole cluster",
        f"list deployments in namespace {HOME}",
    ]
    assert f"kubectl auth can-i list deployments.apps -n {HOME}" in finding.command.split("\n")


async def test_with_some_rights_the_rest_is_checked(place: Place) -> None:
    """Whoever may read registrations and Deployments, but no Secrets, no CRDs, and create no Pods."""
    rules = [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            "verbs": ["list"],
        },
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]},
    ]
    await place.patient.bind("watcher", rules)
    token = "watcher"
    place.patient.cluster.add_token(token, f"system:serviceaccount:{HOME}:watcher")
    kubeconfig = place.patient.kubeconfig_of("watcher")
    text = kubeconfig.read_text()
    head = text[: text.index("users:")]
    tail = text[text.index("contexts:") :]
    kubeconfig.write_text(f"{head}users:\n- name: watcher\n  user:\n    token: {token}\n{tail}")
    findings = await place.examine(kubeconfig=kubeconfig)
    (lacking,) = [one for one in findings if one.severity > Severity.info]
    assert sorted(lacking.message.removeprefix("not checked: you have no right to ").split("; ")) == [
        "create pods, network-attachment-definitions in namespace default",
        f"get secrets, services in namespace {HOME}",
        "list customresourcedefinitions, namespaces in the whole cluster",
        f"list jobs in namespace {HOME}",
    ]
    assert {one.check for one in findings if one.severity is Severity.ok} >= {"clock", "deployments", "leases"}


async def test_a_cluster_without_a_webhook_is_examined(patient: Patient) -> None:
    """Definitions are there, and nothing else: no check is at a loss."""
    (finding,) = await Place(patient, patient.kubeconfig.parent).complaints()
    assert finding.subject == "Berth"
