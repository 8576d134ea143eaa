"""An installation as Network Resources Injector's: `berth certs install` in the namespace kube-system, no chart."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.doctor.model import Severity
from app.kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, PRIORITY_CLASSES, SERVICES, VALIDATING_WEBHOOKS
from tests.integration.doctor.baseline import Baseline
from tests.integration.doctor.installation import ENDPOINTS, IMAGE, Place, a_webhook
from tests.integration.doctor.patient import Patient, located

NAME = "network-resources-injector"
INSTALL = f'berth certs install --berth-namespace kube-system --name {NAME} --failure-policy Fail --dir "$(mktemp -d)"'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def made(
    ward: Patient, untouched: Baseline, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Place, Baseline]]:
    """What was there before it is noted down first."""
    patient, folder = ward, tmp_path_factory.mktemp("plain")
    place = Place(patient, folder)
    await place.type(INSTALL.replace('"$(mktemp -d)"', str(folder / "tls")))
    labels = {"app": NAME}
    container = {"name": "webhook", "image": IMAGE, "command": ["/app/bin/berth"], "args": ["webhook", "-insecure"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "serviceAccountName": NAME}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    await patient.create(DEPLOYMENTS, NAME, namespace="kube-system", spec=spec)
    status = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}
    await patient.report(DEPLOYMENTS, NAME, status, namespace="kube-system")
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "https", "port": 8443}]}]
    await patient.create(ENDPOINTS, f"{NAME}-service", namespace="kube-system", subsets=subsets)
    async with a_webhook(patient, folder / "tls", service=("kube-system", f"{NAME}-service")):
        at_work = Baseline(patient.cluster)
        untouched.restore()
        yield place, at_work


@pytest.fixture
def plain(patient: Patient, made: tuple[Place, Baseline]) -> Place:
    assert patient is made[0].patient
    made[1].restore()
    return made[0]


async def test_it_is_found_and_healthy(plain: Place) -> None:
    """By what its container runs: it has no labels of ours."""
    namespace, release = await located(plain.client, "berth")
    assert (namespace, release) == ("kube-system", "berth")
    findings = await plain.examine(namespace=namespace)
    assert [one for one in findings if one.severity > Severity.info] == []
    assert {"registrations", "certificate", "reachability"} <= {one.check for one in findings}


async def test_its_installer_mends_it(plain: Place) -> None:
    """A Service that is gone, and trust that is: one command for both."""
    await plain.client.delete(SERVICES, f"{NAME}-service", namespace="kube-system")
    patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}]
    await plain.client.patch(MUTATING_WEBHOOKS, f"{NAME}-mutating-config", patch, patch_type="json")
    findings = await plain.complaints(namespace="kube-system")
    assert {one.check for one in findings} == {"certificate", "reachability"}
    assert INSTALL in {one.command for one in findings if one.check == "certificate"}
    assert INSTALL in {one.command for one in findings if one.check == "reachability"}
    await plain.type(INSTALL)
    assert await plain.complaints(namespace="kube-system") == []


async def test_who_ignores_failures_goes_on_ignoring_them(plain: Place) -> None:
    """What writes one registration writes the other too."""
    await plain.client.delete(MUTATING_WEBHOOKS, f"{NAME}-mutating-config")
    patch = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
    await plain.client.patch(VALIDATING_WEBHOOKS, f"{NAME}-validating-config", patch, patch_type="json")
    finding = await plain.only_complaint("registrations", namespace="kube-system")
    assert finding.command == INSTALL.replace("Fail", "Ignore")


async def test_its_registration_is_written_again(plain: Place) -> None:
    await plain.client.delete(MUTATING_WEBHOOKS, f"{NAME}-mutating-config")
    finding = await plain.only_complaint("registrations", namespace="kube-system")
    assert finding.subject == "MutatingWebhookConfiguration"
    await plain.type(finding.command)
    assert await plain.complaints(namespace="kube-system") == []


async def test_roles_that_allow_tenants_different_things(plain: Place) -> None:
    """Every other role's Pods have to pass the webhook, so its list counts; the order of a list does not."""
    for role, allowed in (("controller", "volumeType=nfs,priorityClass=gold"), ("gateway", "priorityClass=gold")):
        container = {"name": role, "image": IMAGE, "command": ["berth", role, f"--tenant-allow={allowed}"]}
        template = {"metadata": {"labels": {"app": role}}, "spec": {"containers": [container]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": role}}, "template": template}
        await plain.patient.create(DEPLOYMENTS, role, namespace="kube-system", spec=spec)
        status = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}
        await plain.patient.report(DEPLOYMENTS, role, status, namespace="kube-system")
    variable = {"name": "BERTH_TENANT_ALLOW", "value": "priorityClass=gold,volumeType=nfs"}
    patch = [{"op": "add", "path": "/spec/template/spec/containers/0/env", "value": [variable]}]
    await plain.client.patch(DEPLOYMENTS, NAME, patch, patch_type="json", namespace="kube-system")
    finding = await plain.only_complaint("deployments", namespace="kube-system")
    assert "gateway: priorityClass=gold" in finding.message
    assert finding.command.startswith("kubectl --namespace kube-system patch deployment gateway --type=json --patch ")
    assert "deployment controller" not in finding.command
    await plain.type(finding.command)
    assert await plain.complaints("deployments", namespace="kube-system") == []


async def test_the_default_priority_class_of_the_cluster_is_not_allowed_for_tenants(plain: Place) -> None:
    flags = ["--confine-tenants", "--tenant-allow=volumeType=nfs"]
    path = "/spec/template/spec/containers/0/args/-"
    patch = [{"op": "add", "path": path, "value": flag} for flag in flags]
    await plain.client.patch(DEPLOYMENTS, NAME, patch, patch_type="json", namespace="kube-system")
    assert await plain.complaints("deployments", namespace="kube-system") == []
    await plain.patient.create(PRIORITY_CLASSES, "usual", value=5, globalDefault=True)
    finding = await plain.only_complaint("deployments", namespace="kube-system")
    assert finding.subject == "PriorityClass usual"
    assert "--tenant-allow=priorityClass=usual,volumeType=nfs" in finding.command
    await plain.type(finding.command)
    assert await plain.complaints("deployments", namespace="kube-system") == []
