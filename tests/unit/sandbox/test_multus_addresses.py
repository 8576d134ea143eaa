"""Addresses as the Multus stand-in takes them out of an attachment's IPAM."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.devtools.claims.ipam import Addresses, Ipam, ipam_of
from app.devtools.sandbox.standins.sandboxes import NotAttached

JSON = dict[str, Any]


def ipam(kind: str, **fields: Any) -> Ipam:
    return ipam_of(json.dumps({"type": "macvlan", "ipam": {"type": kind, **fields}}))


@pytest.mark.parametrize(
    ("found", "given"),
    [
        (ipam("host-local", subnet="10.1.0.0/24"), ["10.1.0.2"]),
        (ipam("host-local", subnet="10.1.0.0/24", gateway="10.1.0.9", rangeStart="10.1.0.9"), ["10.1.0.10"]),
        (
            ipam(
                "host-local", ranges=[[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.5"}], [{"subnet": "fd00::/64"}]]
            ),
            ["10.1.0.5", "fd00::2"],
        ),
        (ipam("static", addresses=[{"address": "10.1.0.7/24"}, {"address": "fd00::7/64"}]), ["10.1.0.7", "fd00::7"]),
        (ipam("whereabouts", range="10.1.0.0/24"), ["10.1.0.1"]),
        (ipam("whereabouts", range="10.1.0.0/24", range_start="10.1.0.8"), ["10.1.0.8"]),
        (ipam("whereabouts", range="10.1.0.20-10.1.0.30/24", exclude=["10.1.0.20/31"]), ["10.1.0.22"]),
        (ipam("whereabouts", ipRanges=[{"range": "10.1.0.0/24"}, {"range": "fd00::/64"}]), ["10.1.0.1", "fd00::1"]),
        (ipam("dhcp"), []),
        (ipam_of(""), []),
        (ipam_of('{"type": "macvlan"}'), []),
        (
            ipam_of('{"plugins": [{"type": "a"}, {"ipam": {"type": "host-local", "subnet": "10.1.0.0/30"}}]}'),
            ["10.1.0.2"],
        ),
    ],
)
def test_each_plugin_gives_its_first_address(found: Ipam, given: list[str]) -> None:
    assert Addresses().give("n", found) == given


def test_an_address_has_the_prefix_of_its_network() -> None:
    both = ipam("host-local", ranges=[[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00::/64"}]])
    ends = ipam("whereabouts", range="10.1.0.20-10.1.0.30/25")
    static = ipam("static", addresses=[{"address": "10.1.0.7/26"}])
    assert [both.prefix("10.1.0.9"), both.prefix("fd00::9"), ends.prefix("10.1.0.20"), static.prefix("10.1.0.7")] == [
        24,
        64,
        25,
        26,
    ]
    assert ipam_of("").prefix("10.1.0.7") == 32


def test_an_address_is_given_once_and_the_last_one_not_at_once_again() -> None:
    small = ipam("whereabouts", range="10.1.0.0/29")
    addresses = Addresses()
    given = [addresses.give("n", small)[0] for _ in range(3)]
    assert given == ["10.1.0.1", "10.1.0.2", "10.1.0.3"]
    addresses.free("n", "10.1.0.1")
    assert [addresses.give("n", small)[0] for _ in range(4)] == ["10.1.0.4", "10.1.0.5", "10.1.0.6", "10.1.0.1"]
    with pytest.raises(NotAttached, match="no address of network n is free"):
        addresses.give("n", small)
    assert addresses.give("other", small) == ["10.1.0.1"]


def test_addresses_that_are_wanted_are_given() -> None:
    both = ipam("host-local", ranges=[[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00::/64"}]])
    addresses = Addresses()
    assert addresses.give("n", both, ["10.1.0.50/24"]) == ["10.1.0.50", "fd00::2"]
    with pytest.raises(NotAttached, match=r"10\.1\.0\.50 of network n is in use"):
        addresses.give("n", both, ["10.1.0.50"])


def test_addresses_of_pods_that_were_there_are_not_given() -> None:
    addresses = Addresses()
    addresses.take("n", "10.1.0.1")
    assert addresses.give("n", ipam("whereabouts", range="10.1.0.0/24")) == ["10.1.0.2"]
