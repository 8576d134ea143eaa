"""Attachments that came in before the check of admission, and control switches that are not used."""

from __future__ import annotations

import json

import pytest

from app.doctor.installed import flag, read_deployment
from app.doctor.model import Severity
from app.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NETWORK_ATTACHMENTS,
    RESOURCE_SLICES,
)
from app.networks.checks.networks import ATTACHMENTS_CHECK, SWITCHES_CHECK
from tests.integration.doctor.patient import HOME, JSON, RESOURCE_NAME, Patient

SWITCHES = "nri-control-switches"


async def switches(patient: Patient, config: object, *, namespace: str = HOME, key: str = "config.json") -> None:
    text = config if isinstance(config, str) else json.dumps(config)
    await patient.create(CONFIG_MAPS, SWITCHES, namespace=namespace, data={key: text})


def injection(network: str) -> JSON:
    return {"op": "add", "path": "/metadata/annotations", "value": {"k8s.v1.cni.cncf.io/networks": network}}


async def test_good_attachments_are_well(patient: Patient) -> None:
    await patient.attachment("good")
    (found,) = await patient.examine(ATTACHMENTS_CHECK)
    assert (found.severity, found.message) == (Severity.ok, "1 network attachment checked: no problem found")


async def test_a_cluster_without_attachments_has_nothing_wrong_with_them(patient: Patient) -> None:
    assert await patient.examine(ATTACHMENTS_CHECK) == []
    name = f"{NETWORK_ATTACHMENTS.plural}.{NETWORK_ATTACHMENTS.group}"
    await patient.client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
    assert await patient.examine(ATTACHMENTS_CHECK) == []


@pytest.mark.parametrize(
    ("annotations", "config", "message", "consequence"),
    [
        ({RESOURCE_NAME: "n c"}, "", f"metadata.annotations[{RESOURCE_NAME}]: 'n c' has no domain", "denies"),
        ({}, "{", "spec.config: not valid JSON", "ContainerCreating"),
        ({}, '{"cniVersion": "1.0.0"}', "spec.config.type: want a plugin's name", "ContainerCreating"),
    ],
)
async def test_a_broken_attachment(
    patient: Patient, annotations: JSON, config: str, message: str, consequence: str
) -> None:
    await patient.create(
        NETWORK_ATTACHMENTS, "net", namespace="default", metadata={"annotations": annotations}, spec={"config": config}
    )
    (found,) = await patient.examine(ATTACHMENTS_CHECK)
    assert (found.severity, found.subject) == (Severity.error, "NetworkAttachmentDefinition default/net")
    assert found.message.startswith(message)
    assert consequence in found.consequence
    assert found.command == "kubectl --namespace default edit network-attachment-definitions.k8s.cni.cncf.io net"


async def test_a_resource_that_no_container_can_ask_for(patient: Patient) -> None:
    """Until a driver has devices of this name, which a claim of the Pod can have."""
    metadata = {"annotations": {RESOURCE_NAME: "sriov_nic_1"}}
    await patient.create(NETWORK_ATTACHMENTS, "net", namespace="default", metadata=metadata)
    (found,) = await patient.examine(ATTACHMENTS_CHECK)
    assert (found.severity, found.code) == (Severity.warning, "BERTH1101")
    assert found.message.startswith(f"metadata.annotations[{RESOURCE_NAME}]: 'sriov_nic_1' has no domain")
    assert "unless a claim of their own has one" in found.consequence
    names = {"k8s.cni.cncf.io/resourceName": "sriov_nic_1", "k8s.cni.cncf.io/deviceID": "0000:3b:02.1"}
    attributes = {key: {"string": value} for key, value in names.items()}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "d", "attributes": attributes}]
    spec = {"driver": "sriov.example.com", "nodeName": "n", "pool": pool, "devices": devices}
    await patient.create(RESOURCE_SLICES, "s", spec=spec)
    (found,) = await patient.examine(ATTACHMENTS_CHECK)
    assert found.severity == Severity.ok


async def test_of_very_many_broken_attachments_the_first_are_told(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.networks.checks.networks._MOST", 1)
    for name in ("a", "b", "c"):
        await patient.create(NETWORK_ATTACHMENTS, name, namespace="default", spec={"config": "{"})
    found, more = await patient.examine(ATTACHMENTS_CHECK)
    assert found.subject == "NetworkAttachmentDefinition default/a"
    assert more.message == "2 more network attachments with similar findings: fix the above, then run the doctor again"


async def test_the_keys_are_those_that_the_webhook_was_told(patient: Patient) -> None:
    metadata = {"annotations": {"example.com/resource": "nic", RESOURCE_NAME: "nic"}}
    await patient.create(NETWORK_ATTACHMENTS, "net", namespace="default", metadata=metadata)
    labels = {"app": "berth"}
    container = {
        "name": "webhook",
        "image": "berth",
        "args": ["webhook", "-network-resource-name-keys=example.com/resource"],
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    await patient.create(DEPLOYMENTS, "berth-webhook", namespace=HOME, spec=spec)
    (found,) = await patient.examine(ATTACHMENTS_CHECK)
    assert found.message.startswith("metadata.annotations[example.com/resource]: 'nic' has no domain")
    assert found.severity == Severity.warning
    assert RESOURCE_NAME not in found.message


async def test_no_control_switches_are_no_fault(patient: Patient) -> None:
    assert await patient.examine(SWITCHES_CHECK) == []


async def test_good_control_switches_are_well(patient: Patient) -> None:
    await patient.attachment("foo")
    await switches(patient, {"user-defined-injections": {"example.com/fast": injection("default/foo")}})
    (found,) = await patient.examine(SWITCHES_CHECK)
    assert (found.severity, found.message) == (Severity.ok, "is read without errors: 1 injection by label")


@pytest.mark.parametrize(
    ("config", "message", "consequence"),
    [
        ("{", "config.json is not valid JSON", "a webhook that starts now knows no injection"),
        ({"features": {"enableHugePageDownApi": 1}}, "features.'enableHugePageDownApi' is neither", "as the flags"),
        (
            {"user-defined-injections": {"example.com/fast": {"op": "remove"}}},
            "user-defined-injections: entry 'example.com/fast' is skipped: op is 'remove'",
            "Pods that carry this label get nothing injected",
        ),
        (
            {"user-defined-injections": {"example.com/fast": injection("default/gone")}},
            "label example.com/fast injects network default/gone, whose attachment does not exist",
            "Berth denies every Pod that carries the label",
        ),
    ],
)
async def test_control_switches_that_are_not_used(
    patient: Patient, config: object, message: str, consequence: str
) -> None:
    await switches(patient, config)
    (found,) = await patient.examine(SWITCHES_CHECK)
    assert (found.severity, found.subject) == (Severity.error, f"ConfigMap {HOME}/{SWITCHES}")
    assert found.message.startswith(message)
    assert consequence in found.consequence
    assert found.command == f"kubectl --namespace {HOME} edit configmap {SWITCHES}"


async def test_control_switches_under_another_key(patient: Patient) -> None:
    await switches(patient, {}, key="config.yaml")
    (found,) = await patient.complaints(SWITCHES_CHECK)
    assert found.message == "has no key config.json, but config.yaml"


async def test_control_switches_of_another_namespace_are_brought_here(patient: Patient) -> None:
    await switches(patient, {"features": {}}, namespace="kube-system")
    (found,) = await patient.complaints(SWITCHES_CHECK)
    assert found.subject == f"ConfigMap kube-system/{SWITCHES}"
    assert f"Berth reads the one in its own namespace, {HOME}" in found.message
    await switches(patient, {"features": {}})
    assert not await patient.complaints(SWITCHES_CHECK)


@pytest.mark.parametrize(
    ("arguments", "name", "switch", "expected"),
    [
        (("webhook", "--a-b=c"), "--a-b", False, "c"),
        (("webhook", "-a-b", "c", "--a-b", "d"), "--a-b", False, "d"),
        (("webhook", "--a-b"), "--a-b", False, None),
        (("webhook", "--a-b="), "--a-b", False, ""),
        (("webhook", "a-b=c"), "--a-b", False, None),
        (("webhook", "-on"), "--on", True, "true"),
        (("webhook", "--on", "--no-on"), "--on", True, "false"),
        (("webhook", "--on=false"), "--on", True, "false"),
        (("webhook",), "--on", True, None),
    ],
)
def test_flags_are_read_as_the_webhook_reads_them(
    arguments: tuple[str, ...], name: str, *, switch: bool, expected: str | None
) -> None:
    assert flag(arguments, name, switch=switch) == expected


def test_a_flag_beats_its_variable() -> None:
    container: JSON = {
        "name": "webhook",
        "image": "berth",
        "args": ["webhook", "--existing-resources=skip"],
        "env": [
            {"name": "BERTH_EXISTING_RESOURCES", "value": "add"},
            {"name": "BERTH_CONFINE_TENANTS", "value": "true"},
            {"name": "BERTH_NETWORK_RESOURCE_NAME_KEYS", "value": "a,b"},
            {"name": "BERTH_ADMIN_NAMES", "value": "c,d"},
        ],
    }
    deployment = {
        "metadata": {"name": "webhook", "namespace": HOME},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    running = read_deployment(deployment)
    assert running is not None
    assert running.deployed == {
        "existing_resources": "skip",
        "confine_tenants": True,
        "network_resource_name_keys": "a,b",
        "admin_names": ("c", "d"),
    }
