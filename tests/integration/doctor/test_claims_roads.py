"""By which road devices of attachments are served, and what keeps Multus from finding them."""

from __future__ import annotations

import pytest

from app.claims.checks.claims import CHECK
from app.claims.model import DEVICE_ID, RESOURCE_NAME
from app.doctor.model import Finding, Severity
from app.kube.resources import DEVICE_CLASSES, NETWORK_ATTACHMENTS, NODES, RESOURCE_SLICES
from tests.integration.doctor.patient import JSON, Patient
from tests.support.claims import NODE, RESOURCE, VF

MULTUS = {DEVICE_ID: "0000:03:00.1", RESOURCE_NAME: RESOURCE}
SRIOV = "sriovnetwork.k8snetworkplumbingwg.io"


async def one_finding(patient: Patient) -> Finding:
    (found,) = await patient.examine(CHECK)
    return found


async def device_class(patient: Patient, name: str = "vf", resource: str = RESOURCE, driver: str = VF) -> None:
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    await patient.create(DEVICE_CLASSES, name, spec={"extendedResourceName": resource, "selectors": [selector]})


async def slice_of(patient: Patient, attributes: dict[str, str], *, driver: str = VF, bound: bool = True) -> None:
    shown = {key: {"string": value} for key, value in attributes.items()}
    where: JSON = {"nodeName": NODE} if bound else {"allNodes": True}
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "pool": pool, "devices": [{"name": "vf1", "attributes": shown}], **where}
    await patient.create(RESOURCE_SLICES, f"{NODE}-{driver}", spec=spec)


async def by_class(patient: Patient, name: str, annotation: str, value: str) -> None:
    metadata = {"annotations": {annotation: value, "k8s.v1.cni.cncf.io/resourceName": "example.com/unused"}}
    spec = {"config": '{"cniVersion": "1.0.0", "type": "host-device"}'}
    await patient.create(NETWORK_ATTACHMENTS, name, namespace="default", metadata=metadata, spec=spec)


async def test_the_road_of_each_resource_is_one_line(patient: Patient) -> None:
    await patient.create(NODES, NODE)
    await patient.report(NODES, NODE, {"allocatable": {"example.com/plugin": "4", RESOURCE: "0"}})
    await device_class(patient)
    await slice_of(patient, MULTUS)
    await patient.attachment("a", resource="example.com/plugin")
    await patient.attachment("b", resource=RESOURCE)
    await by_class(patient, "c", "berth.dev/device-class", "vf")
    await by_class(patient, "d", "berth.dev/resource-claim-template", "some")
    found = await one_finding(patient)
    assert (found.severity, found.message) == (
        Severity.info,
        (
            "devices of attachments are served: example.com/plugin by device plugin, "
            f"{RESOURCE} by DRA by extended resource, vf by DRA by claim"
        ),
    )


async def test_a_resource_that_nothing_offers(patient: Patient) -> None:
    await patient.attachment("a", resource=RESOURCE)
    await patient.attachment("b", resource=RESOURCE)
    (found,) = await patient.examine(CHECK)
    assert (found.severity, found.subject) == (Severity.info, "NetworkAttachmentDefinition default/a")
    assert found.message == f"asks for {RESOURCE}, as 1 other attachment too: nothing offers it"
    await device_class(patient)
    found = await one_finding(patient)
    assert (found.severity, found.subject) == (Severity.warning, "NetworkAttachmentDefinition default/a")
    await patient.run(found.command)
    assert "DeviceClass vf maps it, and no ResourceSlice has a device of that class" in found.message


async def test_a_class_that_nothing_offers(patient: Patient) -> None:
    await by_class(patient, "c", "berth.dev/device-class", "vf")
    found = await one_finding(patient)
    assert (found.severity, found.message) == (
        Severity.warning,
        "asks for a device of DeviceClass vf: nothing offers it: there is no DeviceClass vf",
    )


@pytest.mark.parametrize(
    "attributes", [{}, {DEVICE_ID: "0000:03:00.1"}, {RESOURCE_NAME: RESOURCE}, MULTUS | {RESOURCE_NAME: "a.b/c"}]
)
async def test_devices_that_multus_does_not_find_by_their_attributes(
    patient: Patient, attributes: dict[str, str]
) -> None:
    await patient.attachment("a", resource=RESOURCE)
    await device_class(patient)
    await slice_of(patient, attributes)
    (found,) = await patient.complaints(CHECK)
    assert (found.severity, found.subject) == (Severity.warning, "DeviceClass vf")
    assert found.message == (
        f"maps {RESOURCE}, and no device of it has the attributes {DEVICE_ID} and {RESOURCE_NAME} ({RESOURCE})"
    )
    assert "ContainerCreating" in found.consequence
    await patient.run(found.command)


async def test_what_the_driver_for_sriov_wants_is_said(patient: Patient) -> None:
    await patient.attachment("a", resource=RESOURCE)
    await device_class(patient, driver=SRIOV)
    await slice_of(patient, {DEVICE_ID: "0000:03:00.1"}, driver=SRIOV)
    (found,) = await patient.complaints(CHECK)
    assert found.message.endswith(f"want a DeviceAttributes with {RESOURCE_NAME}, selected by a SriovResourcePolicy")


async def test_devices_that_multus_does_not_find_by_their_node(patient: Patient) -> None:
    await patient.attachment("a", resource=RESOURCE)
    await device_class(patient)
    await slice_of(patient, MULTUS, bound=False)
    (found,) = await patient.complaints(CHECK)
    assert found.message == (
        f"maps {RESOURCE}, and the ResourceSlices of its devices have no nodeName: Multus lists them by node"
    )


async def test_findings_are_bounded(patient: Patient) -> None:
    for number in range(55):
        await by_class(patient, f"a{number}", "berth.dev/device-class", f"r{number}")
    found = await patient.complaints(CHECK)
    assert len(found) == 51
    assert found[-1].message.startswith("there may be more resources")
