"""An installation as Network Resources Injector's: `berth certs install` in the namespace kube-system, no chart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from app.doctor.locating import locate
from app.doctor.model import Severity
from app.kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, SERVICES
from tests.doctor.installation import ENDPOINTS, IMAGE, Place, a_webhook
from tests.doctor.patient import Patient

NAME = "network-resources-injector"
INSTALL = f'berth certs install --namespace kube-system --name {NAME} --failure-policy Fail --dir "$(mktemp -d)"'


@pytest_asyncio.fixture
async def plain(patient: Patient, tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(patient, tmp_path)
    await place.type(INSTALL.replace('"$(mktemp -d)"', str(tmp_path / "tls")))
    labels = {"app": NAME}
    container = {"name": "webhook", "image": IMAGE, "command": ["/app/bin/berth"], "args": ["webhook", "-insecure"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "serviceAccountName": NAME}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    await patient.create(DEPLOYMENTS, NAME, namespace="kube-system", spec=spec)
    status = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}
    await patient.report(DEPLOYMENTS, NAME, status, namespace="kube-system")
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "https", "port": 8443}]}]
    await patient.create(ENDPOINTS, f"{NAME}-service", namespace="kube-system", subsets=subsets)
    async with a_webhook(patient, tmp_path / "tls", service=("kube-system", f"{NAME}-service")):
        yield place


async def test_it_is_found_and_healthy(plain: Place) -> None:
    """By what its container runs: it has no labels of ours."""
    namespace = await locate(plain.client, "berth")
    assert namespace == "kube-system"
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


async def test_its_registration_is_written_again(plain: Place) -> None:
    await plain.client.delete(MUTATING_WEBHOOKS, f"{NAME}-mutating-config")
    finding = await plain.only_complaint("registrations", namespace="kube-system")
    assert finding.subject == "MutatingWebhookConfiguration"
    await plain.type(finding.command)
    assert await plain.complaints(namespace="kube-system") == []
