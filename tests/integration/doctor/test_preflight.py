"""What an installation needs of a cluster, before there is one."""

from __future__ import annotations

from typing import Any

import pytest

from app.doctor.examining import PREFLIGHT
from app.doctor.model import Severity
from app.kube.client import KubeClient
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS
from tests.integration.doctor.patient import HOME, Patient


async def codes(patient: Patient, **options: Any) -> dict[str, str]:
    return {finding.code: finding.message for finding in await patient.examine(PREFLIGHT, **options) if finding.code}


async def test_a_cluster_that_has_all(patient: Patient) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await patient.create(DAEMON_SETS, "kube-multus-ds", namespace="default", spec=spec)
    for name in [definition for definition in await definitions(patient) if "k8s.cni.cncf.io" not in definition]:
        await patient.client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
    found = await patient.examine(PREFLIGHT)
    assert {finding.severity for finding in found} == {Severity.ok}
    assert [finding.message for finding in found][1:] == [
        "Multus is installed",
        "you may create all that the chart has",
    ]


async def definitions(patient: Patient) -> list[str]:
    page = await patient.client.list_page(CUSTOM_RESOURCE_DEFINITIONS, limit=500)
    return [obj["metadata"]["name"] for obj in page.items]


async def test_definitions_that_are_not_ours(patient: Patient) -> None:
    assert "BERTH0904" in await codes(patient)


async def test_without_multus(patient: Patient) -> None:
    assert "BERTH0903" in await codes(patient)
    await patient.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "network-attachment-definitions.k8s.cni.cncf.io")
    assert "BERTH0902" in await codes(patient)


@pytest.mark.parametrize(("minor", "old"), [("29", True), ("29+", True), ("30", False), ("37", False)])
async def test_an_old_kubernetes(patient: Patient, monkeypatch: pytest.MonkeyPatch, minor: str, old: bool) -> None:  # noqa: FBT001  a value of the table
    whole = KubeClient.get_path

    async def get_path(self: KubeClient, path: str, **more: Any) -> Any:
        return {"major": "1", "minor": minor} if path == "/version" else await whole(self, path, **more)

    monkeypatch.setattr(KubeClient, "get_path", get_path)
    assert ("BERTH0901" in await codes(patient)) == old


async def test_a_user_without_rights(patient: Patient) -> None:
    found = await codes(patient, kubeconfig=patient.kubeconfig_of("nobody"))
    assert "clusterroles.rbac.authorization.k8s.io" in found["BERTH0905"]
    assert HOME not in found["BERTH0905"]
