"""The parts of the planner of network data, beyond what the goldens show."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
from functools import partial
from ipaddress import ip_interface, ip_network
from typing import Any

import pytest

from app.claims.model import MOST_IPS, DeviceKey
from app.claims.publishing.model import MOST_RANGES, Attachment, Inputs, NetworkData, may_publish, stored_attachment
from app.claims.publishing.planning import addressed, hardware_address, plan_pod
from app.claims.slices import Pools, stored_slice
from app.claims.stored import ClaimPod, claim_pod, stored_claim, stored_pod
from app.services.addresses import Network


def any_address(_address: Any) -> bool:
    return True


def attachment(config: Any, **annotations: str) -> Any:
    text = config if isinstance(config, str) else json.dumps(config)
    return stored_attachment(
        {"metadata": {"namespace": "ns", "name": "a", "annotations": annotations}, "spec": {"config": text}}
    )


@pytest.mark.parametrize(
    "config",
    [
        "",
        "{",
        "[1]",
        "\ud800",
        "[" * 100_000,
        {"ipam": []},
        {"plugins": {"ipam": {"subnet": "10.0.0.0/8"}}},
        {"plugins": [[], {"ipam": "host-local"}]},
        {"ipam": {"subnet": 1, "range": None, "ranges": [1, [2, {"subnet": {}}]], "ipRanges": "x", "addresses": [[]]}},
        {"ipam": {"subnet": "10.0.0.0", "range": "10.0.0.1-10.0.0.9", "ipRanges": [{"range": "10.0.0.0/40"}]}},
        {"ipam": {"subnet": "0.0.0.0/0", "addresses": [{"address": "10.0.0.1"}, {"address": "fe80::1%eth0/64"}]}},
    ],
)
def test_odd_configurations_have_no_subnets(config: Any) -> None:
    found = attachment(config)
    assert (found.key, found.resource, found.subnets, found.statics) == ("ns/a", "", (), ())


def test_a_configuration_that_is_no_text_has_no_subnets() -> None:
    specs: list[Any] = [None, [], {"config": {"ipam": {"subnet": "10.0.0.0/8"}}}]
    for spec in specs:
        assert stored_attachment({"metadata": {"namespace": "ns", "name": "a"}, "spec": spec}).subnets == ()


def test_the_first_key_that_is_present_names_the_resource() -> None:
    obj = {"metadata": {"namespace": "ns", "name": "a", "annotations": {"two": " x/two ", "three": "x/three"}}}
    assert stored_attachment(obj, ["one", "two", "three"]).resource == "x/two"
    assert stored_attachment(obj).resource == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2001:DB8::1", "2001:db8::1"),
        ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
        ("1:0:0:2:3:0:0:4", "1::2:3:0:0:4"),
        ("0:0:1::", "0:0:1::"),
        ("::10.0.0.1", "::a00:1"),
        ("64:ff9b::10.0.0.1", "64:ff9b::a00:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::ffff:0:10.0.0.1", "::ffff:0:a00:1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_addresses_are_written_as_the_api_server_writes_them(text: str, found: str) -> None:
    """As `netip.Addr.String` of Go does."""
    answer = addressed([text], requested=(), attachment=None, driver=(), may_publish=any_address)
    assert answer.ips == (f"{found}/{128 if ':' in found else 32}",)
    assert answer.unknown == answer.ips


@pytest.mark.parametrize(
    ("text", "ips"),
    [
        ("10.0.0.9/24", ("10.0.0.9/24",)),
        ("::ffff:10.0.0.9/120", ("10.0.0.9/24",)),
        ("::ffff:10.0.0.9/64", ("10.0.0.9/32",)),
        ("10.0.0.9/0", ("10.0.0.9/32",)),
        ("10.0.0.9/33", ("10.0.0.9/32",)),
        ("10.0.0.9/²", ("10.0.0.9/32",)),
        ("10.0.0.09", ()),
        ("127.0.0.1", ()),
        ("::1", ()),
        ("::", ()),
        ("ff02::1", ()),
        ("255.255.255.255", ()),
    ],
)
def test_an_address_with_a_prefix_keeps_it(text: str, ips: tuple[str, ...]) -> None:
    assert addressed([text], requested=(), attachment=None, driver=(), may_publish=any_address).ips == ips


def test_the_longest_prefix_of_the_attachment_counts() -> None:
    config = {"ipam": {"ranges": [[{"subnet": "10.0.0.0/8"}], [{"subnet": "10.1.0.0/16"}], [{"subnet": "fd00::/64"}]]}}
    found = addressed(
        ["10.1.0.1", "10.2.0.1", "::ffff:10.1.0.2"],
        requested=(),
        attachment=attachment(config),
        driver=(),
        may_publish=any_address,
    )
    assert found.ips == ("10.1.0.1/16", "10.2.0.1/8", "10.1.0.2/16")
    assert found.unknown == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("02:00:00:00:00:AB", "02:00:00:00:00:ab"),
        (" 0200.0000.00ab ", "02:00:00:00:00:ab"),
        ("02-00-00-00-00-00-00-01", "02:00:00:00:00:00:00:01"),
        (":".join(["0A"] * 20), ":".join(["0a"] * 20)),
        ("02:00:00:00:00", ""),
        ("02:00-00:00-00:01", ""),
        ("020000000001", ""),
        ("02:00:00:00:00:0g", ""),
        ("02:00:00:00:00:0\u0661", ""),
        ("", ""),
    ],
)
def test_hardware_addresses(text: str, found: str) -> None:
    assert hardware_address(text) == found


def test_empty_members_are_left_out() -> None:
    assert NetworkData("", "", ("10.0.0.1/24",), (), 0, "ns/a").body() == {"ips": ["10.0.0.1/24"]}
    assert NetworkData("net1", "02:00:00:00:00:01", (), (), 0, "ns/a").body() == {
        "interfaceName": "net1",
        "hardwareAddress": "02:00:00:00:00:01",
    }


def pool_of(*slices: tuple[int, int, str]) -> Pools:
    """Slices as (generation, how many there are, device)."""
    return Pools(
        stored_slice(
            {
                "metadata": {"name": f"s{index}"},
                "spec": {
                    "driver": "d",
                    "nodeName": f"n{generation}",
                    "pool": {"name": "p", "generation": generation, "resourceSliceCount": count},
                    "devices": [{"name": device}],
                },
            }
        )
        for index, (generation, count, device) in enumerate(slices)
    )


@pytest.mark.parametrize(
    ("slices", "node"),
    [
        ([(1, 1, "a")], "n1"),
        ([(2, 1, "a"), (1, 1, "a")], "n2"),
        ([(2, 2, "a"), (1, 1, "a")], "n1"),
        ([(2, 2, "a"), (2, 2, "b"), (1, 1, "a")], "n2"),
        ([(2, 1, "b"), (1, 1, "a")], None),
        ([(1, 2, "a")], None),
        ([], None),
    ],
)
def test_the_newest_complete_generation_counts(slices: list[tuple[int, int, str]], node: str | None) -> None:
    found = pool_of(*slices).find(DeviceKey("d", "p", "a"))
    assert (found.node if found is not None else None) == node
    assert pool_of(*slices).find(DeviceKey("d", "other", "a")) is None


def test_resources_that_device_plugins_give() -> None:
    """Those that the Pod asks for and its extended-resource claim does not have."""
    resources = {"limits": {"x/a": "1", "x/b": "1", "cpu": "1"}, "requests": {"x/c": "1"}}
    status = {
        "extendedResourceClaimStatus": {
            "resourceClaimName": "e",
            "requestMappings": [{"containerName": "m", "resourceName": "x/a", "requestName": "r0"}],
        }
    }
    spec = {"initContainers": [{"resources": {"limits": {"x/d": 1}}}, {}], "containers": [{"resources": resources}]}
    pod = stored_pod({"metadata": {"namespace": "ns", "name": "p", "uid": "p"}, "spec": spec, "status": status})
    assert pod is not None
    assert pod.extended_requests == (("r0", "x/a"),)
    assert pod.plugin_resources == {"x/b", "x/c", "x/d"}


def test_an_attachment_with_too_many_ranges_says_nothing_of_addresses() -> None:
    """A part of them would say that the addresses in the others are outside."""

    def found(subnets: int, addresses: int = 0) -> Attachment:
        ranges = [[{"subnet": f"10.{one >> 8}.{one & 255}.0/24"}] for one in range(subnets)]
        fixed = [{"address": f"172.16.{one >> 8}.{one & 255}/16"} for one in range(addresses)]
        config = json.dumps({"ipam": {"ranges": ranges, "addresses": fixed}})
        return stored_attachment({"metadata": {"namespace": "ns", "name": "a"}, "spec": {"config": config}})

    assert len(found(MOST_RANGES).subnets) == MOST_RANGES
    for many in (found(MOST_RANGES + 1), found(MOST_RANGES, 1), found(1, MOST_RANGES)):
        assert (many.subnets, many.statics) == ((), ())


def test_only_addresses_that_are_published_are_looked_up_in_the_subnets() -> None:
    class Counting(ipaddress.IPv4Network):
        looks = 0

        def __contains__(self, address: object) -> bool:
            Counting.looks += 1
            return super().__contains__(address)

    attachment = Attachment("ns/a", "", (Counting("10.0.0.0/8"),))
    found = addressed(
        (f"10.0.{n >> 8}.{n & 255}" for n in range(5000)),
        requested=(),
        attachment=attachment,
        driver=(),
        may_publish=any_address,
    )
    assert (len(found.ips), found.dropped, Counting.looks) == (MOST_IPS, 5000 - MOST_IPS, MOST_IPS)


@pytest.mark.parametrize(
    ("ips", "ipam", "unconfined", "published", "withheld"),
    [
        # In the subnets of the attachment, whatever writes the network status.
        (["10.0.0.5"], {"subnet": "10.0.0.0/24"}, False, ["10.0.0.5/24"], []),
        (["10.0.1.5", "10.0.0.5"], {"subnet": "10.0.0.0/24"}, False, ["10.0.0.5/24"], ["10.0.1.5"]),
        (["10.0.1.5"], {"subnet": "10.0.0.0/24"}, False, [], ["10.0.1.5"]),
        (["10.0.0.0", "10.0.1.0"], {"subnet": "10.0.0.0/24"}, False, ["10.0.0.0/24"], ["10.0.1.0"]),
        (["10.0.0.5/8"], {"subnet": "10.0.0.0/24"}, False, ["10.0.0.5/8"], []),
        (["::ffff:10.0.0.5", "::ffff:10.9.0.5"], {"subnet": "10.0.0.0/24"}, False, ["10.0.0.5/24"], ["10.9.0.5"]),
        (["fd00::5", "fd01::5"], {"range": "fd00::/64"}, False, ["fd00::5/64"], ["fd01::5"]),
        (["fd00::5"], {"subnet": "10.0.0.0/24"}, False, [], ["fd00::5"]),
        (["fe80::1", "169.254.169.254"], {"subnet": "10.0.0.0/24"}, False, ["fe80::1/128"], ["169.254.169.254"]),
        (["10.0.0.5"], {"addresses": [{"address": "10.0.0.5/24"}]}, False, ["10.0.0.5/24"], []),
        (["10.0.0.6"], {"addresses": [{"address": "10.0.0.5/24"}]}, False, [], ["10.0.0.6"]),
        # Nothing says the subnets: an administrator may let them be published; subnets that are known count even so.
        (["10.0.0.5"], {"type": "dhcp"}, False, [], ["10.0.0.5"]),
        (["10.0.0.5"], {"type": "dhcp"}, True, ["10.0.0.5/32"], []),
        (["10.0.1.5"], {"subnet": "10.0.0.0/24"}, True, [], ["10.0.1.5"]),
        # Excluded ranges have the last word.
        (["10.96.0.1", "10.0.0.5"], {"subnet": "10.0.0.0/8"}, False, ["10.0.0.5/8"], ["10.96.0.1"]),
        (["10.96.0.1"], {"type": "dhcp"}, True, [], ["10.96.0.1"]),
    ],
)
def test_addresses_outside_of_the_network_are_not_published(
    ips: list[str], ipam: Any, published: list[str], withheld: list[str], *, unconfined: bool
) -> None:
    """The author of the annotation may write any address (CVE-2021-25740): one rule for claims and EndpointSlices."""
    of, excluded = attachment({"ipam": ipam}), (ip_network("10.96.0.0/12"),)
    rule = partial(may_publish, attachment=of, unconfined=unconfined, excluded=excluded)
    found = addressed(ips, requested=["10.0.1.5/24"], attachment=of, driver=["10.0.1.5/24"], may_publish=rule)
    assert (list(found.ips), list(found.withheld)) == (published, withheld)
    network = Network("ns/a", attachment=of, unconfined=unconfined, excluded=excluded)
    addresses = [ip_interface(text).ip for text in (*published, *withheld)]
    assert [network.publishes(address) for address in addresses] == [True] * len(published) + [False] * len(withheld)


def test_of_opaque_members_only_what_is_read_is_kept() -> None:
    """Ten KiB for each device would add up, and they nest as deeply as their author likes."""
    parameters = {"ifName": "net1", "interface": {"name": "eth0", "mtu": 9000}, "netAttachDefName": [], "large": "x"}
    data = {"cniResult": {"ips": [{"address": "10.0.0.2/24"}], "interfaces": []}, "vfConfig": {"large": "x"}}
    devices = {"results": [], "config": [{"opaque": {"driver": "d", "parameters": parameters}}]}
    entry = {"driver": "d", "pool": "p", "device": "a", "data": data}
    claim = stored_claim(
        {"metadata": {"name": "c", "uid": "c"}, "status": {"allocation": {"devices": devices}, "devices": [entry]}}
    )
    assert [one.parameters for one in claim.configs] == [{"ifName": "net1", "interface": {"name": "eth0"}}]
    assert [one.data for one in claim.entries.values()] == [{"cniResult": {"ips": [{"address": "10.0.0.2/24"}]}}]


def test_what_the_claims_of_a_pod_cost_grows_with_their_number() -> None:
    """A Pod may name thousands of claims."""

    class Counting(ClaimPod):
        reads = 0

        @property
        def claim_names(self) -> tuple[str, ...]:
            Counting.reads += 1
            return super().claim_names

    def reads(count: int) -> int:
        names = [f"c{number}" for number in range(count)]
        listed = [{"name": name, "resourceClaimName": name} for name in names]
        read = claim_pod({"metadata": {"namespace": "ns", "name": "p", "uid": "p"}, "spec": {"resourceClaims": listed}})
        pod = Counting(**{field.name: getattr(read, field.name) for field in dataclasses.fields(read)})
        claims = tuple(stored_claim({"metadata": {"namespace": "ns", "name": name, "uid": name}}) for name in names)
        Counting.reads = 0
        assert len(plan_pod(Inputs(pod, claims, (), {})).unpublished) == count
        return Counting.reads

    assert reads(100) == reads(1)
