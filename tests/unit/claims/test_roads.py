"""By which road a resource is served."""

from __future__ import annotations

from typing import Any

import pytest

from app.claims.roads import Offer, claim_road, devices_of, road_of

JSON = dict[str, Any]
VF, DRIVER = "example.com/vf", "sriov.example.com"
DRIVER_IS = f'device.driver == "{DRIVER}"'
IS_A_VF = f'device.attributes["{DRIVER}"].kind == "vf"'


def of_class(name: str, resource: str = "", *selectors: str) -> JSON:
    spec: JSON = {"selectors": [{"cel": {"expression": text}} for text in selectors]}
    return {"metadata": {"name": name}, "spec": spec | ({"extendedResourceName": resource} if resource else {})}


def of_slice(*names: str, generation: int = 1, driver: str = DRIVER, resource: str = VF, kind: str = "vf") -> JSON:
    attributes = {
        "kind": {"string": kind},
        "k8s.cni.cncf.io/deviceID": {"string": "0000:03:02.0"},
        "k8s.cni.cncf.io/resourceName": {"string": resource},
    }
    devices = [{"name": name, "attributes": attributes} for name in names]
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": 1}
    return {"metadata": {"name": f"s{generation}"}, "spec": {"driver": driver, "pool": pool, "devices": devices}}


def offer(*objects: JSON, **nodes: str) -> Offer:
    """Nodes by the amount of the resource that they announce."""
    classes = [one for one in objects if "pool" not in one["spec"]]
    allocatable = {name: {VF: amount} for name, amount in nodes.items()}
    return Offer(allocatable, classes, [one for one in objects if one not in classes])


def test_a_node_that_announces_it_serves_it_by_its_device_plugin() -> None:
    road = road_of(VF, offer(n1="4", n2="0", n3="1"))
    assert road.ways == ("device plugin",)
    assert road.text == "device plugin, on n1, n3"


@pytest.mark.parametrize("resource", [VF, "deviceclass.resource.kubernetes.io/vf"])
def test_a_class_that_maps_it_serves_it(resource: str) -> None:
    found = offer(of_class("vf", VF, DRIVER_IS), of_slice("a", "b", resource=resource))
    road = road_of(resource, found)
    assert road.ways == ("DRA by extended resource",)
    assert road.text == "DRA by extended resource, DeviceClass vf with 2 devices"


def test_both_can_serve_it() -> None:
    road = road_of(VF, offer(of_class("vf", VF), of_slice("a"), n1="4"))
    assert road.ways == ("device plugin", "DRA by extended resource")
    assert road.text == "device plugin, on n1; DRA by extended resource, DeviceClass vf with 1 device"


def test_nothing_offers_it() -> None:
    assert road_of(VF, offer(of_class("other", "example.com/other"), n1="0")).text == "nothing offers it"
    road = road_of(VF, offer(of_class("vf", VF, 'device.driver == "another"'), of_slice("a")))
    assert road.ways == ("nothing",)
    assert "no ResourceSlice has a device of that class" in road.text


def test_multus_finds_no_device_without_its_attributes() -> None:
    road = road_of(VF, offer(of_class("vf", VF), of_slice("a", resource="example.com/other")))
    assert road.ways == ("DRA by extended resource",)
    assert "Multus finds none of these devices" in road.text


def test_a_claim_needs_a_class_with_devices() -> None:
    assert claim_road("vf", offer()).text == "nothing offers it: there is no DeviceClass vf"
    assert "no ResourceSlice" in claim_road("vf", offer(of_class("vf"))).text
    road = claim_road("vf", offer(of_class("vf"), of_slice("a")))
    assert (road.ways, road.text) == (("DRA by claim",), "DRA by claim, DeviceClass vf with 1 device")


@pytest.mark.parametrize(
    ("selectors", "names"),
    [
        ((), ["a", "b", "p"]),
        ((IS_A_VF,), ["a", "b"]),
        ((DRIVER_IS, IS_A_VF), ["a", "b"]),
        (('device.driver == "x" && ' + IS_A_VF,), []),
        (("this is ( no CEL",), ["a", "b", "p"]),
        (('device.attributes["absent"].x == 1',), ["a", "b", "p"]),
        (("&&".join(["true"] * 1500),), ["a", "b", "p"]),
        (("!" * 9000 + "true",), ["a", "b", "p"]),
    ],
)
def test_devices_are_those_that_a_selector_does_not_exclude(selectors: tuple[str, ...], names: list[str]) -> None:
    """What cannot be decided excludes none. Of a pool the newest generation counts."""
    second = of_slice("p", kind="pf")
    second["spec"]["pool"]["name"] = "n2"
    slices = [of_slice("old"), of_slice("a", "b", generation=2), second]
    assert [one["name"] for one in devices_of(of_class("vf", "", *selectors), slices)] == names
