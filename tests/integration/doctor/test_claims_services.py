"""Services on secondary networks, definitions of claims, and templates that are not made from these."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from app.claims.checks.claims import CHECK
from app.claims.definitions import CLASS_DEFINITION
from app.claims.model import CLAIM_TEMPLATE_MARK, DEFINITIONS_NAME, NETWORK_STATUS
from app.doctor.model import Finding, Severity
from app.kube.client import KubeClient
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    SERVICES,
)
from app.services.model import NETWORK, SELECTOR
from tests.integration.doctor.patient import HOME, NETWORKS, Patient
from tests.integration.doctor.rmd_patient import deploy

HELM = f"helm upgrade --install berth charts/berth --namespace {HOME} --create-namespace --set controller.enabled=true"
PAIR = "requests: {nic: vf}"


async def one_complaint(patient: Patient) -> Finding:
    (found,) = await patient.complaints(CHECK)
    return found


async def service(patient: Patient, name: str, **annotations: str) -> None:
    known = {"network": NETWORK, "selector": SELECTOR}
    metadata = {"annotations": {known[key]: value for key, value in annotations.items()}}
    spec = {"ports": [{"port": 80}], "clusterIP": "None"}
    await patient.create(SERVICES, name, namespace="default", metadata=metadata, spec=spec)


async def network(patient: Patient) -> None:
    """With a Pod on it."""
    config = json.dumps({"type": "macvlan", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}})
    await patient.create(NETWORK_ATTACHMENTS, "net", namespace="default", spec={"config": config})
    await patient.create(NODES, "n")
    status = json.dumps([{"name": "default/net", "interface": "net1", "ips": ["10.0.0.5"]}])
    await patient.pod("p", labels={"app": "x"}, annotations={NETWORK_STATUS: status}, spec={"nodeName": "n"})
    await patient.report(PODS, "p", {"conditions": [{"type": "Ready", "status": "True"}]}, namespace="default")


async def config_map(patient: Patient, name: str = DEFINITIONS_NAME, **data: str) -> None:
    await patient.create(CONFIG_MAPS, name, namespace=HOME, data=data)


async def template(patient: Patient, name: str, **labels: str) -> None:
    devices = {"requests": [{"name": "nic", "exactly": {"deviceClassName": "vf"}}]}
    spec = {"spec": {"devices": devices}}
    await patient.create(RESOURCE_CLAIM_TEMPLATES, name, namespace="default", metadata={"labels": labels}, spec=spec)


async def test_services_whose_controller_does_not_run(patient: Patient) -> None:
    await service(patient, "a", network="net", selector="app=x")
    await service(patient, "usual")
    assert await patient.complaints(CHECK) == [], "Berth may run elsewhere"
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=rmd")
    found = await one_complaint(patient)
    assert (found.severity, found.message) == (
        Severity.error,
        f"1 Service (default/a) with annotation {NETWORK}, and controller network-services does not run",
    )
    assert found.command == f"{HELM} --set 'controller.args.controllers={{network-services,rmd}}'"


async def test_services_that_cannot_be_served(patient: Patient) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=network-services")
    await network(patient)
    await service(patient, "well", network="net", selector="app=x")
    assert "1 Service on a secondary network checked: no problem found" in {
        one.message for one in await patient.examine(CHECK)
    }
    await service(patient, "wrong", network="net", selector="app in (")
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.error, "Service default/wrong")
    assert found.message.startswith(f"metadata.annotations[{SELECTOR}]: ")
    assert found.command == "kubectl --namespace default edit services wrong"


async def test_services_that_reach_nobody_have_the_verdict_of_why(patient: Patient) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=network-services")
    await network(patient)
    await service(patient, "nobody", network="net", selector="app=nobody")
    found = await one_complaint(patient)
    assert (found.code, found.severity, found.subject) == ("BERTH5019", Severity.warning, "Service default/nobody")
    assert found.message == (
        f"0 endpoints on network default/net: no Pod in default has app=nobody ({SELECTOR}); "
        "1 Pod on network default/net has app=x"
    )
    await patient.run(found.command)
    assert await patient.complaints(CHECK) == []
    await service(patient, "lost", network="nett", selector="app=x")
    found = await one_complaint(patient)
    assert (found.code, found.severity) == ("BERTH5020", Severity.error)
    assert found.message.endswith("there is no NetworkAttachmentDefinition nett in default; there is net")
    await patient.run(found.command)
    await patient.pod("away", labels={"app": "x"}, spec={"nodeName": "n"})
    codes = {one.code for one in await patient.complaints(CHECK)}
    assert codes == {"BERTH5021"}


async def test_many_services_cost_as_many_requests_as_one(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=network-services")
    await network(patient)
    counts, requests = [], Counter[str]()
    for name in ("list_page", "get"):
        monkeypatch.setattr(KubeClient, name, counted(getattr(KubeClient, name), requests))
    for number in range(20):
        await service(patient, f"s{number}", network="net", selector=f"app=x{number}")
        if number in (0, 19):
            requests.clear()
            await patient.examine(CHECK)
            counts.append(requests.total())
    assert counts[0] == counts[1]


async def test_of_many_services_whose_pods_wait_only_so_many_chains_are_followed(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.why.services._JUDGED", 2)
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=network-services")
    await network(patient)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no cpu"}
    counts, requests = [], Counter[str]()
    monkeypatch.setattr(KubeClient, "get", counted(KubeClient.get, requests))
    for number in range(8):
        await service(patient, f"s{number}", network="net", selector=f"app=y{number}")
        await patient.pod(f"y{number}", labels={"app": f"y{number}"}, annotations={NETWORKS: "net"})
        await patient.report(PODS, f"y{number}", {"conditions": [condition]}, namespace="default")
        if number in (3, 7):
            requests.clear()
            subjects = [one.subject for one in await patient.complaints(CHECK)]
            assert subjects == ["Service default/s0", "Service default/s1"]
            counts.append(requests["get"])
    assert counts[0] == counts[1] < 8


def counted(method: Any, requests: Counter[str]) -> Any:
    def call(self: KubeClient, *words: Any, **more: Any) -> Any:
        requests[method.__name__] += 1
        return method(self, *words, **more)

    return call


@pytest.mark.parametrize("role", [("controller", "--controllers=claim-templates"), ("webhook", "--claims")])
async def test_definitions_with_a_mistake(patient: Patient, role: tuple[str, str]) -> None:
    await deploy(patient, f"berth-{role[0]}", HOME, *role, "--claim-templates=other")
    await config_map(patient, "other", pair="devices: [")
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.error, f"ConfigMap {HOME}/other")
    assert found.message.startswith("data[pair]: this is not YAML")
    assert found.command == f"kubectl --namespace {HOME} edit configmaps other"


async def test_definitions_without_a_controller(patient: Patient) -> None:
    await config_map(patient, pair=PAIR)
    assert await patient.complaints(CHECK) == [], "Berth may run elsewhere"
    await deploy(patient, "berth-webhook", HOME, "webhook", "--claims")
    found = await one_complaint(patient)
    assert (found.severity, found.message) == (
        Severity.warning,
        (f"1 definition of claims (ConfigMap {HOME}/{DEFINITIONS_NAME}), and controller claim-templates does not run"),
    )
    assert "claim-templates" in found.command


async def test_a_template_of_others_with_the_name_of_a_definition(patient: Patient) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=claim-templates")
    await config_map(patient, pair=PAIR)
    metadata = {"annotations": {CLASS_DEFINITION: "nic"}}
    await patient.create(DEVICE_CLASSES, "vf", metadata=metadata, spec={})
    await template(patient, "other")
    await template(patient, "pair", **{"app.kubernetes.io/managed-by": "berth", CLAIM_TEMPLATE_MARK: "pair"})
    assert await patient.complaints(CHECK) == []
    await template(patient, "nic")
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.warning, "ResourceClaimTemplate default/nic")
    assert found.message == "was not made from the definition nic, and has its name"
    await patient.run(found.command)
    assert await patient.complaints(CHECK) == []
