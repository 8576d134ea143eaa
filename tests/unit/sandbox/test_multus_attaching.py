"""Which attachment gets which device, and the network status, by the rules of Multus."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.claims.model import DEVICE_ID, PCI_BUS_ID, RESOURCE_NAME
from app.claims.network_status import attached_to
from app.devtools.claims.annotations import Element, selected
from app.devtools.claims.attaching import DeviceMap, device_map, network_status
from app.devtools.sandbox.standins.sandboxes import NotAttached
from tests.support.devices import DRIVER, FOO, device, resource_slice

JSON = dict[str, Any]
OTHER = "example.com/boo"


def vf(name: str, number: str, resource: str = FOO, pci: str = "") -> JSON:
    return device(name, **{DEVICE_ID: number, RESOURCE_NAME: resource, **({PCI_BUS_ID: pci} if pci else {})})


def claim(*devices: str, request: str = "r") -> JSON:
    results = [{"request": request, "driver": DRIVER, "pool": "a", "device": name} for name in devices]
    return {"metadata": {"name": "c"}, "status": {"allocation": {"devices": {"results": results}}}}


def pod(networks: Any, default: str = "") -> JSON:
    text = networks if isinstance(networks, str) else json.dumps(networks)
    annotations = {"k8s.v1.cni.cncf.io/networks": text}
    annotations |= {"v1.multus-cni.io/default-network": default} if default else {}
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations}
    return {"metadata": metadata}


def attachments(**resources: str) -> dict[tuple[str, str], JSON]:
    return {
        ("kube-system" if name == "home" else "ns", name): {
            "metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": resource} if resource else {}}
        }
        for name, resource in resources.items()
    }


def status(of: JSON, devices: DeviceMap, *, sandbox: int = 1, **resources: str) -> list[JSON]:
    return network_status(
        of,
        attachments(**resources),
        devices,
        address="10.244.0.2",
        sandbox=sandbox,
        give=lambda element: [*element.ips] or ["10.1.0.2"],
    )


def pci(entry: JSON) -> str:
    return (entry.get("device-info") or {"pci": {"pci-address": ""}})["pci"]["pci-address"]


def test_the_nth_attachment_of_a_resource_gets_the_nth_id_by_strings() -> None:
    slices = [resource_slice(vf("x", "id-9"), vf("y", "id-10"), vf("z", "id-5", OTHER, pci="0000:01:00.1"))]
    devices = device_map([(claim("x"), None), (claim("z", "y"), None)], slices, "a")
    assert devices.ids == {FOO: ["id-10", "id-9"], OTHER: ["id-5"]}
    entries = status(pod("foo,boo,plain,foo,foo"), devices, foo=FOO, boo=OTHER, plain="")
    assert [pci(one) for one in entries] == ["", "id-10", "0000:01:00.1", "", "id-9", ""]
    assert [one["interface"] for one in entries] == ["eth0", "net1", "net2", "net3", "net4", "net5"]


def test_the_default_network_counts_for_itself() -> None:
    devices = device_map([(claim("x", "y"), None)], [resource_slice(vf("x", "1"), vf("y", "2"))], "a")
    entries = status(pod("foo", default="home"), devices, foo=FOO, home=FOO)
    assert [(one["name"], pci(one), one.get("default", False)) for one in entries] == [
        ("kube-system/home", "1", True),
        ("ns/foo", "1", False),
    ]


def test_the_status_is_what_multus_writes() -> None:
    networks = [
        {"name": "foo", "interface": "vf0", "ips": ["10.1.0.9"], "mac": "02:00:00:00:00:AA"},
        {"name": "foo", "namespace": "ns"},
    ]
    devices = device_map([(claim("x"), None)], [resource_slice(vf("x", "0000:01:00.1"))], "a")
    cluster, first, second = status(pod(networks), devices, foo=FOO)
    assert cluster == {
        "name": "cluster-network",
        "interface": "eth0",
        "ips": ["10.244.0.2"],
        "mac": cluster["mac"],
        "default": True,
        "dns": {},
    }
    assert first == {
        "name": "ns/foo",
        "interface": "vf0",
        "ips": ["10.1.0.9"],
        "mac": "02:00:00:00:00:aa",
        "dns": {},
        "device-info": {"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:01:00.1"}},
    }
    assert (second["interface"], "device-info" in second) == ("net2", False)
    assert len({cluster["mac"], second["mac"], status(pod(networks), devices, sandbox=2, foo=FOO)[2]["mac"]}) == 3
    assert [one.interface for one in attached_to(json.dumps([cluster, first, second]))] == ["eth0", "vf0", "net2"]


def test_devices_are_looked_for_in_slices_of_the_node_and_generations_are_merged() -> None:
    old, new = resource_slice(vf("x", "old"), vf("gone", "left")), resource_slice(vf("x", "new"), generation=2)
    everywhere = resource_slice(vf("x", "all"), pool="a", allNodes=True)
    found = device_map([(claim("x", "gone"), None)], [old, new, everywhere], "a")
    assert found.ids == {FOO: ["left", "new"]}
    assert device_map([(claim("x"), None)], [old], "b").ids == {}


def test_a_device_without_the_attributes_is_skipped_or_an_error() -> None:
    slices = [resource_slice(device("x", **{DEVICE_ID: "1"}), device("n", **{DEVICE_ID: 1, RESOURCE_NAME: FOO}))]
    assert device_map([(claim("x", "n"), None)], slices, "a").ids == {}
    with pytest.raises(NotAttached, match="device x lacks"):
        device_map([(claim("x"), {"r": FOO})], slices, "a")
    with pytest.raises(NotAttached, match="device y lacks"):
        device_map([(claim("y"), {"r": OTHER})], [resource_slice(vf("y", "1"))], "a")


def test_a_claim_without_an_allocation_keeps_the_sandbox_waiting() -> None:
    with pytest.raises(NotAttached, match="claim c has no allocation"):
        device_map([({"metadata": {"name": "c"}, "status": {}}, None)], [], "a")


def test_what_is_selected_is_read_as_multus_reads_it() -> None:
    default, others = selected(pod('[{"NAME": "foo", "IPs": ["10.1.0.9"], "Mac": "02:00:00:00:00:01"}]'))
    assert default is None
    assert others == [Element("ns", "foo", "net1", ("10.1.0.9",), "02:00:00:00:00:01")]
    with pytest.raises(NotAttached):
        selected(pod("a@b@c"))
