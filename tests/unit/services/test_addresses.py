"""The addresses that a Pod has on a network: tables of what Multus and drivers say, and what follows."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import ip_interface, ip_network
from typing import Any

import pytest

from app.claims.model import MOST_IPS, DeviceKey
from app.claims.publishing.model import Attachment, stored_attachment
from app.claims.slices import Attributes, Pools, Slice
from app.claims.stored import stored_claim
from app.services.addresses import Claimed, Network, addresses_of
from app.services.model import NamedDevice, Pod, stored_pod

JSON = dict[str, Any]
VLAN = Attachment("ns/vlan", "", (ip_network("10.0.0.0/8"), ip_network("fd00::/8")))
NETWORK = Network("ns/vlan", attachment=VLAN)
KEY = {"driver": "vf.example.com", "pool": "n1", "device": "vf0"}
DRIVER, NODE = "vf.example.com", "n1"
DEVICE = DeviceKey(DRIVER, NODE, "vf0")
SHARED = Network("ns/vlan", "example.com/foo", frozenset({"ns/vlan"}), VLAN)


def pod(status: object = None, *, networks: str = "", claim: bool = False, **spec: Any) -> Pod:
    text = status if status is None or isinstance(status, str) else json.dumps(status)
    annotations = {"k8s.v1.cni.cncf.io/networks": networks}
    if text is not None:
        annotations["k8s.v1.cni.cncf.io/network-status"] = text
    claims = [{"name": "nic", "resourceClaimName": "c"}] if claim else []
    metadata = {"namespace": "ns", "name": "p", "uid": "pod", "annotations": annotations}
    found = stored_pod({"metadata": metadata, "spec": {"resourceClaims": claims, **spec}})
    assert found is not None
    return found


def attached(*ips: str, name: str = "ns/vlan") -> JSON:
    return {"name": name, "interface": "net1", "ips": list(ips)}


def claimed(*ips: str, resource: str = "", consumers: tuple[str, ...] = ("pod",), **more: Any) -> Claimed:
    """A claim with one device; `more` are members of its allocation result, and the `config` of the allocation."""
    config = more.pop("config", [])
    status = {
        "allocation": {"devices": {"results": [{**KEY, "request": "nic/first", **more}], "config": config}},
        "reservedFor": [{"resource": "pods", "name": one, "uid": one} for one in consumers],
        "devices": [{**KEY, "networkData": {"ips": list(ips)}}],
    }
    claim = stored_claim({"metadata": {"namespace": "ns", "name": "c", "uid": "c"}, "status": status})
    return Claimed({("ns", "c"): claim}, {DEVICE: resource} if resource else {})


def names(found: object) -> list[str]:
    assert isinstance(found, tuple), found
    return [str(one) for one in found]


def config(requests: tuple[str, ...] = (), driver: str = "vf.example.com", **parameters: Any) -> list[JSON]:
    return [{"requests": list(requests), "opaque": {"driver": driver, "parameters": parameters}}]


@pytest.mark.parametrize(
    ("ips", "found"),
    [
        (("10.0.0.1",), ["10.0.0.1"]),
        (("10.0.0.1", "fd00::1", "10.0.0.1"), ["10.0.0.1", "fd00::1"]),
        (("10.0.0.1/24",), ["10.0.0.1"]),
        (("::ffff:10.0.0.1",), ["10.0.0.1"]),
        (("FD00:0::1",), ["fd00::1"]),
        (
            ("nonsense", "127.0.0.1", "169.254.0.1", "fe80::1", "fe80::1%eth0", "0.0.0.0", "ff02::1", "10.0.0.2"),
            ["10.0.0.2"],
        ),
    ],
)
def test_what_multus_says(ips: tuple[str, ...], found: list[str]) -> None:
    assert names(addresses_of(pod([attached(*ips)]), NETWORK, Claimed())) == found


def test_the_addresses_of_a_pod_are_bounded() -> None:
    many = [f"10.0.{number >> 8}.{number & 255}" for number in range(5000)]
    assert names(addresses_of(pod([attached("fe80::1", *many)]), NETWORK, Claimed())) == many[:MOST_IPS]


def test_several_interfaces_on_one_network() -> None:
    status = [attached("10.0.0.1"), attached("10.9.0.1", name="ns/other"), attached("10.0.0.2")]
    assert names(addresses_of(pod(status), NETWORK, Claimed())) == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (pod([attached("10.0.0.1")], hostNetwork=True), "HostNetwork"),
        (pod(claim=True), "NoNetworkStatus"),
        (pod("{"), "BadNetworkStatus"),
        (pod("null"), "BadNetworkStatus"),
        (pod([attached("10.0.0.1", name="ns/other")]), "NotAttached"),
        (pod([attached("10.0.0.1", name="vlan")]), "NotAttached"),
        (pod([attached()]), "NoAddress"),
        (pod([attached("127.0.0.1")]), "BadAddress"),
    ],
)
def test_why_a_pod_has_none(made: Pod, reason: str) -> None:
    assert addresses_of(made, NETWORK, Claimed()) == reason


@pytest.mark.parametrize(
    ("addresses", "usable"),
    [
        (["10.0.0.1", "10.9.0.9"], ["10.0.0.1"]),
        (["10.9.0.1", "10.9.0.2"], ["10.9.0.1"]),
        (["fd00::1"], "OutsideNetwork"),
        (["10.9.0.2"], "OutsideNetwork"),
        (["10.96.0.1", "10.0.0.7"], ["10.0.0.7"]),
    ],
)
def test_addresses_outside_the_attachment_are_left_out(addresses: list[str], usable: object) -> None:
    """A fixed address is inside. Of a family without a subnet nothing is."""
    attachment = Attachment("ns/vlan", "", (ip_network("10.0.0.0/24"),), (ip_interface("10.9.0.1/24"),))
    found = addresses_of(pod([attached(*addresses)]), replace(NETWORK, attachment=attachment), Claimed())
    assert (found if isinstance(found, str) else names(found)) == usable


@pytest.mark.parametrize("attachment", [None, Attachment("ns/vlan", "")])
@pytest.mark.parametrize("address", ["10.0.0.1", "8.8.8.8", "fd00::1"])
def test_without_known_subnets_nothing_is_published(attachment: Attachment | None, address: str) -> None:
    """The author of the annotation may write any address; an administrator may let that be."""
    network = replace(NETWORK, attachment=attachment)
    assert addresses_of(pod([attached(address)]), network, Claimed()) == "NoSubnets"
    assert (
        addresses_of(pod(claim=True), network, claimed(address, config=config(netAttachDefName="vlan"))) == "NoSubnets"
    )
    assert names(addresses_of(pod([attached(address)]), replace(network, unconfined=True), Claimed())) == [address]


@pytest.mark.parametrize(
    "config",
    [
        {"type": "host-local", "subnet": "10.1.0.0/24"},
        {
            "type": "host-local",
            "ranges": [[{"subnet": "10.2.0.0/24"}, {"subnet": "10.1.0.0/24"}], [{"subnet": "fd00::/64"}]],
        },
        {"type": "whereabouts", "range": "10.1.0.0/24"},
        {"type": "whereabouts", "range": "10.1.0.5-10.1.0.90/24"},
        {"type": "whereabouts", "ipRanges": [{"range": "10.2.0.0/24"}, {"range": "10.1.0.0/24"}]},
        {"type": "static", "addresses": [{"address": "10.1.0.7/24"}]},
    ],
)
def test_what_each_ipam_publishes(config: JSON) -> None:
    spec = {"config": json.dumps({"type": "macvlan", "ipam": config})}
    attachment = stored_attachment({"metadata": {"namespace": "ns", "name": "vlan"}, "spec": spec})
    made = pod([attached("10.1.0.7", "10.96.0.1", "192.168.0.9")])
    assert names(addresses_of(made, replace(NETWORK, attachment=attachment), Claimed())) == ["10.1.0.7"]


@pytest.mark.parametrize(
    "config", [{"type": "dhcp"}, {"type": "calico-ipam", "pool": "10.1.0.0/24"}, {}, {"subnet": "0.0.0.0/0"}]
)
def test_an_ipam_that_names_no_subnet_publishes_nothing(config: JSON) -> None:
    spec = {"config": json.dumps({"type": "macvlan", "ipam": config})}
    attachment = stored_attachment({"metadata": {"namespace": "ns", "name": "vlan"}, "spec": spec})
    network = replace(NETWORK, attachment=attachment)
    assert addresses_of(pod([attached("10.1.0.7")]), network, Claimed()) == "NoSubnets"


@pytest.mark.parametrize("unconfined", [False, True])
def test_excluded_ranges_are_never_published(*, unconfined: bool) -> None:
    """Not even where the attachment, which a user may write, says that they are its own."""
    attachment = Attachment("ns/vlan", "") if unconfined else VLAN
    excluded = (ip_network("10.96.0.0/12"), ip_network("fd00:9::/32"))
    network = replace(NETWORK, attachment=attachment, unconfined=unconfined, excluded=excluded)
    made = pod([attached("10.96.0.1", "10.0.0.1", "fd00:9::1", "fd00::1")])
    assert names(addresses_of(made, network, Claimed())) == ["10.0.0.1", "fd00::1"]
    assert addresses_of(pod([attached("10.96.0.1")]), network, Claimed()) == "OutsideNetwork"


def test_multus_comes_first() -> None:
    made = pod([attached("10.0.0.1")], claim=True, networks="vlan")
    assert names(addresses_of(made, SHARED, claimed("10.0.0.9/24", resource="example.com/foo"))) == ["10.0.0.1"]


@pytest.mark.parametrize("status", [None, "{", [attached("10.9.0.1", name="ns/other")]])
def test_else_the_claims(status: object) -> None:
    made = pod(status, claim=True, networks="vlan")
    assert names(addresses_of(made, SHARED, claimed("10.0.0.9/24", resource="example.com/foo"))) == ["10.0.0.9"]


@pytest.mark.parametrize(
    ("networks", "sharing", "found"),
    [
        ("vlan", ("ns/vlan",), True),
        ("vlan", ("ns/vlan", "ns/other"), True),
        ("vlan,vlan", ("ns/vlan", "ns/other"), True),
        ("vlan,other", ("ns/vlan", "ns/other"), False),
        ("other", ("ns/vlan", "ns/other"), False),
        ("", ("ns/vlan",), True),
        ("", ("ns/vlan", "ns/other"), False),
        ("a b", ("ns/vlan",), False),
    ],
)
def test_a_device_by_its_resource(networks: str, sharing: tuple[str, ...], *, found: bool) -> None:
    """Only where no other network of the Pod can have it."""
    network = replace(SHARED, sharing=frozenset(sharing))
    made = addresses_of(pod(claim=True, networks=networks), network, claimed("10.0.0.9/24", resource="example.com/foo"))
    assert made == "NoNetworkStatus" if not found else names(made) == ["10.0.0.9"]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (config(netAttachDefName="vlan"), True),
        (config(netAttachDefName="vlan", netAttachDefNamespace="ns"), True),
        (config(netAttachDefName="vlan", netAttachDefNamespace="other"), False),
        (config(("nic",), netAttachDefName="vlan"), True),
        (config(("nic/first",), netAttachDefName="vlan"), True),
        (config(("gpu",), netAttachDefName="vlan"), False),
        (config(driver="other", netAttachDefName="vlan"), False),
        (config(netAttachDefName=7), False),
        ([*config(netAttachDefName="vlan"), *config(netAttachDefName="other")], False),
    ],
)
def test_a_device_by_its_configuration(said: list[JSON], *, found: bool) -> None:
    made = addresses_of(pod(claim=True), NETWORK, claimed("10.0.0.9/24", config=said))
    assert made == "NoNetworkStatus" if not found else names(made) == ["10.0.0.9"]


def test_the_configuration_wins_over_the_resource() -> None:
    data = claimed("10.0.0.9/24", resource="example.com/foo", config=config(netAttachDefName="other"))
    assert addresses_of(pod(claim=True, networks="vlan"), SHARED, data) == "NoNetworkStatus"


@pytest.mark.parametrize(
    "more", [{"consumers": ("pod", "other")}, {"consumers": ("other",)}, {"consumers": ()}, {"adminAccess": True}]
)
def test_a_device_that_others_may_use_is_not_used(more: JSON) -> None:
    data = claimed("10.0.0.9/24", resource="example.com/foo", **more)
    assert addresses_of(pod(claim=True, networks="vlan"), SHARED, data) == "NoNetworkStatus"


def of_pool(name: str, generation: int, count: int, **resources: str) -> Slice:
    devices = {device: Attributes(resource_name=one) for device, one in resources.items()}
    return Slice(name, "vf.example.com", "n1", generation, count, "n1", devices)


@pytest.mark.parametrize(
    ("slices", "found"),
    [
        ([], {}),
        ([of_pool("a", 1, 1, vf0="x/a", vf1="")], {"vf0": "x/a", "vf1": ""}),
        ([of_pool("a", 1, 1, vf0="x/a"), of_pool("b", 2, 1, vf0="x/b")], {"vf0": "x/b"}),
        ([of_pool("a", 1, 1, vf0="x/a"), of_pool("b", 2, 2, vf0="x/b")], {"vf0": "x/a"}),
        ([of_pool("a", 2, 2, vf0="x/a"), of_pool("b", 2, 2, vf1="x/b")], {"vf0": "x/a", "vf1": "x/b"}),
        ([of_pool("a", 2, 3, vf0="x/a")], {}),
    ],
)
def test_the_newest_complete_generation_of_a_pool(slices: list[Slice], found: dict[str, str]) -> None:
    pools = Pools(slices)
    known = {name: pools.find(DeviceKey(DRIVER, NODE, name)) for name in ("vf0", "vf1")}
    assert {name: one.attributes.resource_name for name, one in known.items() if one is not None} == found


def of_device(interface: str = "", request: str = "", **more: Any) -> Network:
    return Network("", device=NamedDevice(interface, request), **more)


def moved(*ips: str, interface: str = "eth1", manager: str = "dranet", **more: Any) -> Claimed:
    """A device that a driver has moved into the Pod, with the network data that this field manager has written."""
    status = {
        "allocation": {"devices": {"results": [{**KEY, "request": "nic/first", **more}]}},
        "reservedFor": [{"resource": "pods", "name": "pod", "uid": "pod"}],
        "devices": [{**KEY, "networkData": {"interfaceName": interface, "ips": list(ips)}}],
    }
    entry = json.dumps(KEY, separators=(",", ":"))
    fields = {"f:status": {"f:devices": {f"k:{entry}": {"f:networkData": {"f:ips": {}, "f:interfaceName": {}}}}}}
    managed = [{"manager": manager, "operation": "Apply", "subresource": "status", "fieldsV1": fields}]
    metadata = {"namespace": "ns", "name": "c", "uid": "c", "managedFields": managed}
    return Claimed({("ns", "c"): stored_claim({"metadata": metadata, "status": status})})


@pytest.mark.parametrize(
    ("network", "data", "found"),
    [
        (of_device("eth1"), moved("10.0.0.9/24", "fd00::9/64"), ["10.0.0.9", "fd00::9"]),
        (of_device(request="nic"), moved("10.0.0.9/24"), ["10.0.0.9"]),
        (of_device(request="nic/first"), moved("10.0.0.9/24"), ["10.0.0.9"]),
        (of_device("eth1", "nic"), moved("10.0.0.9/24"), ["10.0.0.9"]),
        (of_device("eth1"), moved("8.8.8.8/32"), ["8.8.8.8"]),
        (of_device("eth1"), moved("10.0.0.9/24", manager=""), ["10.0.0.9"]),
        (of_device("eth1"), moved("10.0.0.9/24", manager="berth-claims"), "NotOfDriver"),
        (of_device("eth2"), moved("10.0.0.9/24", manager="berth-claims"), "NoNetworkStatus"),
        (of_device("eth2"), moved("10.0.0.9/24"), "NoNetworkStatus"),
        (of_device(request="gpu"), moved("10.0.0.9/24"), "NoNetworkStatus"),
        (of_device("eth1", "gpu"), moved("10.0.0.9/24"), "NoNetworkStatus"),
        (of_device(request="nic/second"), moved("10.0.0.9/24"), "NoNetworkStatus"),
        (of_device("eth1"), moved(), "NoAddress"),
        (of_device("eth1"), moved("127.0.0.1/8", "fe80::1/64"), "BadAddress"),
        (of_device("eth1"), moved("10.0.0.9/24", adminAccess=True), "NoNetworkStatus"),
        (of_device("eth1", excluded=(ip_network("10.0.0.0/8"),)), moved("10.0.0.9/24"), "OutsideNetwork"),
        (of_device("eth1"), Claimed(), "NoNetworkStatus"),
    ],
)
def test_what_a_driver_says_of_the_device_that_a_service_names(network: Network, data: Claimed, found: object) -> None:
    """Whatever the driver is, and without an attachment; our own copies of Multus' annotation are not taken."""
    made = addresses_of(pod(claim=True), network, data)
    assert (made if isinstance(made, str) else names(made)) == found


def test_a_pod_that_is_ready_is_on_no_network_that_nothing_names() -> None:
    """Else a Service would wait, and say nothing, for a network status that never comes."""
    ready = replace(pod(claim=True), ready=True)
    for network in (NETWORK, of_device("eth2")):
        assert addresses_of(ready, network, moved("10.0.0.9/24")) == "NotAttached"
