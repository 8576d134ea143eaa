"""What the chart itself renders, put into a cluster by the Helm engine: all roles, tenants confined."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import helm_python
import pytest
import pytest_asyncio
import yaml

from app.certs.certificate_set import parse_bundle
from app.certs.folder import make, write_files
from app.certs.issuing import serving_names
from app.certs.patching import patch_bundle
from app.doctor.model import Severity
from app.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    VALIDATING_WEBHOOKS,
)
from app.registration import Terms, objects_to, pods_to
from app.registry import CONTROLLER_LEASE
from app.tenancy.wing import AGENT_LEASE
from tests.integration.doctor.baseline import Baseline
from tests.integration.doctor.installation import ENDPOINTS, SECRET, SERVICE, Place, a_webhook
from tests.integration.doctor.patient import HOME, Patient, located
from tests.support.chart import CHART
from tests.support.chart_combinations import ALL

KEPT: dict[str, Any] = {"crds": {"install": False}, "systemNamespace": {"create": False}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def released(
    ward: Patient, untouched: Baseline, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Place, Baseline]]:
    """What was there before it is noted down first."""
    patient, folder = ward, tmp_path_factory.mktemp("chart")
    place = Place(patient, folder)

    def install() -> None:
        with helm_python.Config(kubeconfig_path=patient.kubeconfig, namespace=HOME) as helm:
            helm.install(CHART, "berth", ALL | KEPT | {"ui": {"enabled": True, "replicas": 2}})

    await asyncio.to_thread(install)
    now = datetime.now(UTC)
    place.files = make({}, names=serving_names(service=SERVICE, namespace=HOME), now=now)
    for name in (SECRET, "berth-gateway-tls", "berth-agent", "berth-ui-tls"):
        await place.store(place.files, name=name)
    authorities = parse_bundle(place.files["ca.crt"], source="ca.crt")
    await patch_bundle(place.client, "berth", authorities=authorities, service=None, now=now)
    for deployment in (await place.client.list_page(DEPLOYMENTS, namespace=HOME)).items:
        wanted = deployment["spec"]["replicas"]
        status = {"replicas": wanted, "updatedReplicas": wanted, "readyReplicas": wanted}
        await patient.report(DEPLOYMENTS, deployment["metadata"]["name"], status, namespace=HOME)
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "https", "port": 8443}]}]
    await patient.create(ENDPOINTS, SERVICE, namespace=HOME, subsets=subsets)
    # Nobody renews them, and a slow machine takes longer than 15 s for a few tests.
    spec = {"leaseDurationSeconds": 3600, "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    for name, namespace in ((CONTROLLER_LEASE, HOME), (AGENT_LEASE, "universe")):
        await patient.create(LEASES, name, namespace=namespace, spec=spec | {"holderIdentity": f"{name}-1_ab"})
    await place.client.create(NAMESPACES, {"metadata": {"name": "tenant-blue", "labels": {"berth.dev/tenant": "blue"}}})
    write_files(folder / "tls", place.files)
    async with a_webhook(patient, folder / "tls", service=(HOME, SERVICE)):
        at_work = Baseline(patient.cluster)
        untouched.restore()
        yield place, at_work


@pytest.fixture
def charted(patient: Patient, released: tuple[Place, Baseline]) -> Place:
    assert patient is released[0].patient
    released[1].restore()
    return released[0]


async def test_it_is_found_and_healthy(charted: Place) -> None:
    assert await located(charted.client, "berth") == (HOME, "berth")
    findings = await charted.examine()
    assert [one for one in findings if one.severity > Severity.info] == []
    (said,) = [one for one in findings if one.check == "deployments"]
    assert set(said.subject.split(", ")) == {"webhook", "controller", "gateway", "agent", "certificates", "ui"}
    assert len([one for one in findings if one.check == "leases"]) == 2


async def test_a_release_of_another_name_is_called_by_it(charted: Place) -> None:
    """Commands for Helm would else name a release that is not there."""
    assert await located(charted.client, "prod") == (HOME, "berth")
    assert await located(charted.client, "prod", namespace=HOME) == (HOME, "berth")
    assert await located(charted.client, "prod", namespace="default") == ("default", "prod")


async def test_a_tenant_without_its_label_is_not_confined(charted: Place) -> None:
    """The chart's strict webhook goes by the label: the command sets it."""
    await charted.client.patch(
        NAMESPACES, "tenant-blue", {"metadata": {"labels": {"berth.dev/tenant": None}}}, patch_type="merge"
    )
    finding = await charted.only_complaint("registrations")
    assert (finding.subject, finding.severity) == ("Namespace tenant-blue", Severity.warning)
    assert finding.command == "kubectl label namespace tenant-blue berth.dev/tenant=blue"
    await charted.mends(finding)


async def test_a_registration_that_is_gone_comes_back_with_the_release(charted: Place) -> None:
    await charted.client.delete(MUTATING_WEBHOOKS, "berth")
    finding = await charted.only_complaint("registrations")
    assert finding.command == (
        f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values --set webhook.enabled=true"
    )


async def test_tenants_are_not_confined_without_the_configuration_for_pods(charted: Place) -> None:
    """That follows from the missing registration, whose command brings both back."""
    await charted.client.delete(MUTATING_WEBHOOKS, "berth")
    found = {one.code: one for one in await charted.complaints("registrations", "tenants")}
    assert set(found) == {"BERTH0501", "BERTH2009"}
    assert found["BERTH2009"].severity is Severity.error
    assert found["BERTH2009"].message == "no webhook is called for Pods, by which tenants are confined: tenant-blue"
    assert "on DPUs of other tenants" in found["BERTH2009"].consequence
    assert found["BERTH2009"].cause == found["BERTH0501"]
    # Where the webhook does not run here, its other registrations show that it confines tenants.
    await charted.client.delete(DEPLOYMENTS, "berth-webhook", namespace=HOME)
    assert "BERTH2009" in {one.code for one in await charted.complaints("tenants")}
    await charted.type(found["BERTH0501"].command)
    assert await charted.complaints("registrations", "tenants") == []


INSTALL = f"helm upgrade --install berth charts/berth --namespace {HOME} --create-namespace"
UNREGISTER = "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration {} --ignore-not-found"


async def test_a_hand_edit_is_taken_back_so_that_helm_can_go_on(charted: Place) -> None:
    """All of the selector comes back, and the fields are Helm's again: the next upgrade may change them."""
    before = (await charted.client.get(MUTATING_WEBHOOKS, "berth"))["webhooks"][0]["namespaceSelector"]
    await charted.change(MUTATING_WEBHOOKS, "berth", {"op": "remove", "path": "/webhooks/0/namespaceSelector"})
    finding = await charted.only_complaint("registrations")
    assert finding.command.startswith(f"helm get manifest berth --namespace {HOME} | kubectl apply --server-side ")
    await charted.type(finding.command)
    assert await charted.complaints() == []
    found = await charted.client.get(MUTATING_WEBHOOKS, "berth")
    assert found["webhooks"][0]["namespaceSelector"] == before
    assert found["metadata"]["annotations"]["meta.helm.sh/release-name"] == "berth"
    upgrade = f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values"
    await charted.type(f"{upgrade} --set 'webhook.exemptNamespaces={{mine}}'")


async def test_a_term_that_the_values_say_is_changed_there(charted: Place) -> None:
    """Nobody edited anything: there is nothing to take back."""
    hooks = charted.patient.cluster.storage
    stored = await charted.client.get(MUTATING_WEBHOOKS, "berth")
    strict = next(i for i, one in enumerate(stored["webhooks"]) if one["name"] == "tenant-pods.berth.dev")
    stored["webhooks"][strict]["failurePolicy"] = "Ignore"
    hooks.update(("admissionregistration.k8s.io", "mutatingwebhookconfigurations"), stored)
    finding = await charted.only_complaint("registrations")
    assert finding.command == (
        f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values "
        "--set webhook.webhooks.tenantPods.failurePolicy=Fail"
    )


async def _isolation(charted: Place) -> int:
    """Where the webhook for Pods in tenants' namespaces is in its configuration."""
    stored = await charted.client.get(VALIDATING_WEBHOOKS, "berth")
    return next(i for i, one in enumerate(stored["webhooks"]) if one["name"] == "tenant-isolation.berth.dev")


async def test_a_check_of_tenants_that_was_taken_out_comes_back_with_the_release(charted: Place) -> None:
    index = await _isolation(charted)
    await charted.change(VALIDATING_WEBHOOKS, "berth", {"op": "remove", "path": f"/webhooks/{index}"})
    finding = await charted.only_complaint("registrations")
    assert finding.message.startswith("Berth is not asked about pods, ")
    assert finding.command.endswith("--reset-then-reuse-values --set webhook.args.confineTenants=true")
    await charted.type(finding.command)
    # Whom it trusts is the keeper's to write, which does not run here.
    assert await charted.complaints("registrations") == []


async def test_a_check_of_tenants_that_is_left_out_while_berth_is_away(charted: Place) -> None:
    index = await _isolation(charted)
    stored = await charted.client.get(VALIDATING_WEBHOOKS, "berth")
    stored["webhooks"][index]["failurePolicy"] = "Ignore"
    hooks = charted.patient.cluster.storage
    hooks.update(("admissionregistration.k8s.io", "validatingwebhookconfigurations"), stored)
    finding = await charted.only_complaint("registrations")
    assert finding.consequence == "while Berth is away, tenants' Pods are admitted without being checked"
    assert finding.command == (
        f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values "
        "--set webhook.webhooks.tenantIsolation.failurePolicy=Fail"
    )


async def test_roles_that_allow_tenants_different_things(charted: Place) -> None:
    """Somebody has edited one Deployment: all are again as the release has them."""
    flag = "--tenant-allow=priorityClass=gold"
    await charted.change(
        DEPLOYMENTS, "berth-gateway", {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": flag}
    )
    finding = await charted.only_complaint("deployments")
    assert (finding.severity, finding.subject) == (Severity.warning, "roles")
    assert finding.message == (
        "allow tenants different things by --tenant-allow (controller, webhook: nothing; gateway: priorityClass=gold)"
    )
    await charted.type(finding.command)
    assert await charted.complaints("deployments") == []
    found = await charted.client.get(DEPLOYMENTS, "berth-gateway", namespace=HOME)
    assert flag not in found["spec"]["template"]["spec"]["containers"][0]["args"]


async def test_the_default_priority_class_of_the_cluster_is_not_allowed_for_tenants(charted: Place) -> None:
    await charted.patient.create(PRIORITY_CLASSES, "other", value=7)
    assert await charted.complaints("deployments") == []
    await charted.patient.create(PRIORITY_CLASSES, "usual", value=5, globalDefault=True)
    finding = await charted.only_complaint("deployments")
    assert (finding.severity, finding.subject) == (Severity.error, "PriorityClass usual")
    assert "--tenant-allow does not have priorityClass=usual" in finding.message
    assert finding.command == (
        f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values "
        "--set 'placement.tenantAllow.priorityClass={usual}'"
    )
    await charted.type(finding.command)
    assert await charted.complaints("deployments") == []


async def test_the_namespace_is_gone_and_the_registrations_are_not(charted: Place) -> None:
    """There is nothing to upgrade; until it is installed, there is a way out."""
    for resource in (DEPLOYMENTS, SERVICES, SECRETS):
        for one in (await charted.client.list_page(resource, namespace=HOME)).items:
            await charted.client.delete(resource, one["metadata"]["name"], namespace=HOME)
    charted.patient.cluster.services.clear()
    assert await located(charted.client, "other") == (HOME, "berth")
    findings = [one for one in await charted.examine() if one.severity is Severity.error]
    assert {one.check for one in findings} == {"deployments", "certificate", "reachability"}
    commands = {one.command for one in findings}
    assert all(one == UNREGISTER.format("berth") or one.startswith(INSTALL) for one in commands), commands
    (way_out,) = [one for one in findings if one.check == "deployments"]
    assert way_out.command == UNREGISTER.format("berth")
    assert "no Pod" in way_out.consequence
    await charted.type(way_out.command)
    assert [one for one in await charted.examine() if one.severity is Severity.error] == []


async def test_an_uninstallation_that_stopped_at_its_hook(charted: Place) -> None:
    """Helm can do nothing more with the release, but for an uninstallation without the hook."""
    with helm_python.Chart.load(CHART) as chart:
        rendered = chart.render(ALL | KEPT, name="berth", namespace=HOME)
    texts = [text for text in rendered.values() if "kind: Job" in text]
    job = next(one for text in texts for one in yaml.safe_load_all(text) if one and one["kind"] == "Job")
    await charted.client.create(JOBS, job, namespace=HOME)
    finding = await charted.only_complaint("registrations")
    assert (finding.severity, finding.subject) == (Severity.error, f"Job {HOME}/berth-unregister")
    assert finding.message.startswith("has not ended: ")
    without = f"helm uninstall berth --namespace {HOME} --no-hooks"
    assert finding.command == f"{UNREGISTER.format('berth')} && {without}"
    name = job["metadata"]["name"]
    failed = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "took too long"}
    await charted.patient.report(JOBS, name, {"conditions": [failed]}, namespace=HOME)
    assert (await charted.only_complaint("registrations")).message.startswith("failed (took too long): ")
    await charted.patient.report(JOBS, name, {"conditions": [{"type": "Complete", "status": "True"}]}, namespace=HOME)
    assert await charted.complaints("registrations") == []


async def test_two_releases_are_told_apart(charted: Place) -> None:
    """Each is examined for itself; that both inject is said to either, with the other's name."""
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        other = await charted.client.get(resource, "berth")
        other["metadata"] = {
            "name": "other-berth",
            "labels": other["metadata"]["labels"] | {"app.kubernetes.io/instance": "other"},
            "annotations": {"meta.helm.sh/release-namespace": "other-system"},
        }
        for webhook in other["webhooks"]:
            webhook["clientConfig"] = {"service": webhook["clientConfig"]["service"] | {"namespace": "other-system"}}
            webhook["failurePolicy"] = "Ignore"
        await charted.client.create(resource, other)
    finding = await charted.only_complaint("registrations", "certificate", "deployments")
    assert finding.subject == "MutatingWebhookConfiguration other-berth"
    assert finding.message.startswith("belongs to release other in namespace other-system, and injects into the same")
    assert "asked for twice" not in finding.consequence
    assert finding.command == "helm uninstall other --namespace other-system"
    found = await charted.complaints("registrations", release="other", namespace="other-system")
    (rival,) = [one for one in found if one.subject == "MutatingWebhookConfiguration berth"]
    assert rival.command == f"helm uninstall berth --namespace {HOME}"


async def test_a_webhook_of_a_wing_that_is_missing_comes_back_with_the_release(charted: Place) -> None:
    """The settings turn the wing on, and the configuration does not have its webhook."""
    on = "--set webhook.args.appwrappers=true"
    await charted.type(f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values {on}")
    assert await charted.complaints("registrations") == []
    stored = (await charted.client.get(VALIDATING_WEBHOOKS, "berth"))["webhooks"]
    index = next(i for i, one in enumerate(stored) if one["name"] == "appwrappers.berth.dev")
    await charted.change(VALIDATING_WEBHOOKS, "berth", {"op": "remove", "path": f"/webhooks/{index}"})
    finding = await charted.only_complaint("registrations")
    assert finding.message == "webhook appwrappers.berth.dev is missing, and appwrappers is on"
    await charted.type(finding.command)
    assert await charted.complaints("registrations") == []


async def test_a_webhook_without_the_token_of_callers_gets_it_back_from_the_release(charted: Place) -> None:
    on = "--set webhook.args.appwrappers=true"
    await charted.type(f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values {on}")
    stored = (await charted.client.get(VALIDATING_WEBHOOKS, "berth"))["webhooks"]
    index = next(i for i, one in enumerate(stored) if one["name"] == "appwrappers.berth.dev")
    path = f"/webhooks/{index}/clientConfig/service/path"
    await charted.change(VALIDATING_WEBHOOKS, "berth", {"op": "replace", "path": path, "value": "/validate"})
    finding = await charted.only_complaint("registrations")
    assert (finding.code, finding.severity) == ("BERTH0517", Severity.warning)
    assert finding.subject == "ValidatingWebhookConfiguration berth, webhook appwrappers.berth.dev"
    assert finding.consequence.startswith("every AppWrapper is refused")
    await charted.type(finding.command)
    assert await charted.complaints("registrations") == []


async def test_webhooks_that_are_left_to_another_release_are_missed_if_there_is_none(charted: Place) -> None:
    """One for Pods may be left out by choice; the command of each finding turns on what it misses, and no more."""
    webhooks = ("pods", "attachments", "rules")
    off = ",".join(f"webhook.webhooks.{name}.enabled=false" for name in webhooks)
    upgrade = f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values --set"
    await charted.type(f"{upgrade} {off},webhook.args.appwrappers=true,webhook.args.confineTenants=false")
    findings = [finding for finding in await charted.examine("registrations") if finding.command]
    assert {(finding.code, finding.severity, finding.command) for finding in findings} >= {
        ("BERTH0501", Severity.info, f"{upgrade} webhook.webhooks.pods.enabled=true"),
        ("BERTH0512", Severity.warning, f"{upgrade} webhook.webhooks.attachments.enabled=true"),
    }
    # Another release has them all.
    called = {"url": "https://127.0.0.1:1/mutate"}
    labels = {"app.kubernetes.io/part-of": "berth", "app.kubernetes.io/instance": "other"}
    for resource, build in ((MUTATING_WEBHOOKS, pods_to), (VALIDATING_WEBHOOKS, objects_to)):
        body = build(called, name="other", webhook="other.berth.dev", terms=Terms())
        await charted.client.create(resource, body | {"metadata": {"name": "other", "labels": labels}})
    assert await charted.complaints("registrations") == []
    assert "BERTH0501" not in {finding.code for finding in await charted.examine("registrations")}


@pytest.mark.parametrize("replicas", [0, 1])
async def test_what_kubectl_scaled_is_upgraded_by_the_printed_command(charted: Place, replicas: int) -> None:
    """Helm 4 alone would meet a conflict with the manager of the subresource `scale`."""
    await charted.type(f"kubectl --namespace {HOME} scale deployment/berth-webhook --replicas={replicas}")
    await charted.client.delete(MUTATING_WEBHOOKS, "berth")
    found = {finding.code: finding for finding in await charted.examine("deployments", "registrations")}
    again = found["BERTH0501"].command
    assert again.startswith(
        f"helm get manifest berth --namespace {HOME} | kubectl apply --server-side --force-conflicts"
    )
    assert again.endswith(" --reset-then-reuse-values --set webhook.enabled=true")
    with pytest.raises(AssertionError, match="conflict"):
        await charted.type(again.rpartition(" && ")[2])
    await charted.type(again)
    assert (await charted.client.get(DEPLOYMENTS, "berth-webhook", namespace=HOME))["spec"]["replicas"] == 2


async def test_the_fix_of_a_scaled_role_changes_its_value(charted: Place) -> None:
    """A later upgrade keeps what it has set."""
    await charted.type(
        f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values --set ui.replicas=1"
    )
    await charted.type(f"kubectl --namespace {HOME} scale deployment/berth-controller --replicas=0")
    (stopped,) = [finding for finding in await charted.examine("deployments") if finding.code == "BERTH0305"]
    assert stopped.command.endswith("--reset-then-reuse-values --set controller.replicas=2")
    await charted.type(stopped.command)
    await charted.type(f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values")
    assert (await charted.client.get(DEPLOYMENTS, "berth-controller", namespace=HOME))["spec"]["replicas"] == 2
