"""What the chart itself renders, put into a cluster by the Helm engine: all roles, tenants confined."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import helm_python
import pytest_asyncio

from app.certs.bundles import parse_bundle
from app.certs.files import write_files
from app.certs.holdings import make
from app.certs.issuing import serving_names
from app.certs.patching import patch_bundle
from app.doctor.locating import locate
from app.doctor.model import Severity
from app.kube.resources import DEPLOYMENTS, LEASES, MUTATING_WEBHOOKS, NAMESPACES
from app.permissions import AGENT_LEASE, CONTROLLER_LEASE
from tests.chart.combinations import ALL
from tests.chart.conftest import CHART
from tests.doctor.installation import ENDPOINTS, SERVICE, Place, a_webhook
from tests.doctor.patient import HOME, Patient

KEPT: dict[str, Any] = {"crds": {"install": False}, "systemNamespace": {"create": False}}


@pytest_asyncio.fixture
async def charted(patient: Patient, tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(patient, tmp_path)

    def install() -> None:
        with helm_python.Config(kubeconfig_path=patient.kubeconfig, namespace=HOME) as helm:
            helm.install(CHART, "berth", ALL | KEPT)

    await asyncio.to_thread(install)
    now = datetime.now(UTC)
    place.files = make({}, names=serving_names(service=SERVICE, namespace=HOME), now=now)
    await place.store(place.files)
    authorities = parse_bundle(place.files["ca.crt"], source="ca.crt")
    await patch_bundle(place.client, "berth", authorities=authorities, service=None, now=now)
    for deployment in (await place.client.list_page(DEPLOYMENTS, namespace=HOME)).items:
        wanted = deployment["spec"]["replicas"]
        status = {"replicas": wanted, "updatedReplicas": wanted, "readyReplicas": wanted}
        await patient.report(DEPLOYMENTS, deployment["metadata"]["name"], status, namespace=HOME)
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "https", "port": 8443}]}]
    await patient.create(ENDPOINTS, SERVICE, namespace=HOME, subsets=subsets)
    spec = {"leaseDurationSeconds": 15, "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    for name, namespace in ((CONTROLLER_LEASE, HOME), (AGENT_LEASE, "universe")):
        await patient.create(LEASES, name, namespace=namespace, spec=spec | {"holderIdentity": f"{name}-1_ab"})
    await place.client.create(NAMESPACES, {"metadata": {"name": "tenant-blue", "labels": {"berth.dev/tenant": "blue"}}})
    write_files(tmp_path / "tls", place.files)
    async with a_webhook(patient, tmp_path / "tls", service=(HOME, SERVICE)):
        yield place


async def test_it_is_found_and_healthy(charted: Place) -> None:
    assert await locate(charted.client, "berth") == HOME
    findings = await charted.examine()
    assert [one for one in findings if one.severity > Severity.info] == []
    (said,) = [one for one in findings if one.check == "deployments"]
    assert set(said.subject.split(", ")) == {"webhook", "controller", "gateway", "agent", "certificates"}
    assert len([one for one in findings if one.check == "leases"]) == 2


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
