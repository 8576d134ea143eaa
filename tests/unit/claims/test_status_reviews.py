"""What is warned of and denied when network data is written in the status of a claim."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.admission.decision import Decision
from app.admission.review import GroupVersionKind
from app.cel.libraries import parse_ip
from app.claims.admission.views import BY_ADDRESS, BY_POD, Views, stored_claim, stored_network_pod
from app.claims.publishing.model import stored_attachment
from app.claims.settings import AdmissionSettings
from app.errors import UsageError
from app.kube.store import Store
from app.permissions import permissions_of
from tests.support.claim_status_reviews import attached, attachment, network_pod, reviewing, status_update
from tests.support.claim_statuses import DRIVER, claim, entry

JSON = dict[str, Any]
LAN = attachment("lan", "10.0.0.0/24", "2001:db8::/64")
NET1 = network_pod("p", attached("net1", "10.0.0.5"))
P = ("p",)


async def reviewed(
    obj: JSON, *others: JSON, old: JSON | None = None, deny: tuple[str, ...] = (), **fields: Any
) -> Decision:
    chain = await reviewing(*others, claims_deny_drivers=deny)
    return (await chain.review(status_update(obj, claim("c", pods=P) if old is None else old, **fields))).decision


async def warnings(obj: JSON, *others: JSON, old: JSON | None = None, **fields: Any) -> list[str]:
    decision = await reviewed(obj, *others, old=old, **fields)
    assert decision.allowed
    return list(decision.warnings)


def ours(*ips: str, interface: str = "net1", **more: Any) -> JSON:
    """The claim as it is written: one device with these addresses."""
    return claim("c", entry("d0", interfaceName=interface, ips=list(ips)), pods=P, **more)


async def test_what_fits_passes_without_a_word() -> None:
    assert await warnings(ours("10.0.0.5/24", "2001:db8::5/64"), LAN, NET1) == []


@pytest.mark.parametrize(
    ("shown", "ips", "found"),
    [
        (LAN, ("10.0.0.5/24", "10.0.1.5/24"), "ips[1]: want an address in a subnet of network ns/lan (10.0.0.0/24, 2001:db8::/64), got 10.0.1.5"),
        (LAN, ("2001:db9::5/64",), "ips[0]: want an address in a subnet of network ns/lan (10.0.0.0/24, 2001:db8::/64), got 2001:db9::5"),
        (LAN, ("fe80::5/64", "169.254.1.1/16"), ""),
        (attachment("lan", "10.0.0.0/24"), ("2001:db9::5/64",), ""),
        (attachment("lan", type="dhcp"), ("10.9.9.9/24",), ""),
        (attachment("lan", type="static", subnet="10.0.0.0/24", addresses=[{"address": "10.9.9.9/24"}]), ("10.9.9.9/24",), ""),
        (attachment("lan", *(f"10.0.{n}.0/24" for n in range(6))), ("10.1.0.5/24",), "ips[0]: want an address in a subnet of network ns/lan (10.0.0.0/24, 10.0.1.0/24, 10.0.2.0/24, 10.0.3.0/24, …), got 10.1.0.5"),
        (attachment("other", "10.0.0.0/24"), ("10.9.9.9/24",), ""),
    ],
)  # fmt: skip
async def test_an_address_outside_the_subnets_of_its_network(shown: JSON, ips: tuple[str, ...], found: str) -> None:
    expected = [f"status.devices[0].networkData.{found}"] if found else []
    assert await warnings(ours(*ips), shown, NET1) == expected


@pytest.mark.parametrize(
    "pod",
    [
        network_pod("p", attached("net2", "10.0.0.5")),
        network_pod("p", attached("net1", "10.0.0.5"), uid="another"),
        network_pod("p", attached("net1", "10.0.0.5", network="lan")),
        network_pod("q", attached("net1", "10.0.0.5")),
        network_pod("p", annotations={}),
        network_pod("p", annotations={"k8s.v1.cni.cncf.io/network-status": "["}),
    ],
)
async def test_without_a_known_network_nothing_is_guessed(pod: JSON) -> None:
    other = network_pod("o", attached("net1", "10.9.9.9"))
    assert await warnings(ours("10.9.9.9/24"), LAN, pod, other) == []


@pytest.mark.parametrize("pods", [(), ("p", "q")])
async def test_a_claim_that_is_not_of_one_pod_has_no_network(pods: tuple[str, ...]) -> None:
    shared = claim(
        "c", entry("d0", interfaceName="net1", ips=["10.9.9.9/24"]), entry("d1", interfaceName="net1"), pods=pods
    )
    assert await warnings(shared, LAN, NET1, network_pod("q", attached("net1"))) == []


TAKEN = "status.devices[0].networkData.ips[0]: want an address that nothing else on network ns/lan has, got 10.0.0.5, which "


@pytest.mark.parametrize(
    ("others", "holder"),
    [
        ((network_pod("q", attached("net3", "10.0.0.5")),), "interface net3 of Pod ns/q"),
        ((network_pod("q", attached("net3", "10.0.0.5"), namespace="far"),), "a Pod of another namespace"),
        ((network_pod("p", attached("net1"), attached("net2", "10.0.0.5")),), "interface net2 of Pod ns/p"),
        (
            (network_pod("q", attached("net1")), claim("x", entry("d7", interfaceName="net1", ips=["10.0.0.5/16"]), pods=("q",))),
            f"device {DRIVER}/n1/d7 of claim ns/x",
        ),
    ],
)  # fmt: skip
async def test_an_address_that_another_one_has(others: tuple[JSON, ...], holder: str) -> None:
    known = others if others[0]["metadata"]["name"] == "p" else (NET1, *others)
    assert await warnings(ours("10.0.0.5/24"), LAN, *known) == [f"{TAKEN}{holder} has"]


async def test_claims_of_other_namespaces_are_not_named() -> None:
    """Neither for their addresses, nor for the Pod that they say they are of: its UID is a text that users write."""
    theirs = claim("x", entry("d7", interfaceName="net1", ips=["10.0.0.5/16"]), pods=("q",))
    theirs["metadata"]["namespace"] = "far"
    pod = network_pod("q", attached("net1"), namespace="far")
    assert await warnings(ours("10.0.0.5/24"), LAN, NET1, theirs, pod) == [f"{TAKEN}a claim of another namespace has"]
    rival = claim("x", entry("d7", interfaceName="net1"), pods=P)
    rival["metadata"]["namespace"] = "far"
    (found,) = await warnings(ours("10.0.0.5/24"), LAN, NET1, rival)
    assert found.endswith("got 'net1', which a claim of another namespace has")


async def test_subnets_of_attachments_of_other_namespaces_are_not_quoted() -> None:
    """A user may write a network status that names any attachment."""
    pod = network_pod("p", attached("net1", "10.0.0.5", network="far/secret"))
    given = attachment("secret", "10.77.0.0/24", namespace="far")
    assert await warnings(ours("10.0.0.5/24"), given, pod) == [
        "status.devices[0].networkData.ips[0]: want an address in a subnet of network far/secret, got 10.0.0.5"
    ]


@pytest.mark.parametrize(
    "others",
    [
        (network_pod("q", attached("net1", "10.0.0.5", network="ns/wan")),),
        (network_pod("q", attached("net1", "10.0.0.5"), deletionTimestamp="2026-01-01T00:00:00Z"),),
        (network_pod("q", attached("net1", "10.0.0.5")) | {"status": {"phase": "Succeeded"}},),
        (claim("x", entry("d7", interfaceName="net1", ips=["10.0.0.5/24"]), pods=("q",)),),
        (
            network_pod("q", attached("net1", network="ns/wan")),
            claim("x", entry("d7", interfaceName="net1", ips=["10.0.0.5/24"]), pods=("q",)),
        ),
        (claim("c", entry("d9", interfaceName="net9", ips=["10.0.0.5/24"]), pods=P),),
    ],
)
async def test_an_address_that_is_free_or_on_another_network(others: tuple[JSON, ...]) -> None:
    assert await warnings(ours("10.0.0.5/24"), LAN, NET1, *others) == []


async def test_two_devices_of_one_claim_with_one_address() -> None:
    pod = network_pod("p", attached("net1"), attached("net2"))
    both = claim("c", *(entry(f"d{n}", interfaceName=f"net{n}", ips=["10.0.0.5/24"]) for n in (1, 2)), pods=P)
    found = await warnings(both, LAN, pod)
    assert [line.partition(", got ")[2] for line in found] == [
        f"10.0.0.5, which device {DRIVER}/n1/d{n} of claim ns/c has" for n in (2, 1)
    ]


async def test_an_interface_name_that_another_device_of_the_pod_has() -> None:
    mine = claim("c", entry("d0", interfaceName="net1"), entry("d1", interfaceName="net2"), pods=P)
    other = claim("x", entry("d5", interfaceName="net2"), pods=P)
    foreign = claim("y", entry("d6", interfaceName="net1"), pods=("q",))
    (found,) = await warnings(mine, other, foreign)
    assert found.startswith("status.devices[1].networkData.interfaceName: want a name that no other device of Pod ns/p")
    assert found.endswith(f"got 'net2', which device {DRIVER}/n1/d5 of claim ns/x has")
    twice = claim("c", entry("d0", interfaceName="net1"), entry("d1", interfaceName="net1"), pods=P)
    assert [line.partition(":")[0] for line in await warnings(twice)] == [
        f"status.devices[{index}].networkData.interfaceName" for index in (0, 1)
    ]


async def test_only_changed_entries_are_looked_at() -> None:
    old = ours("10.9.9.9/24")
    added = claim("c", *old["status"]["devices"], entry("d1", interfaceName="net2"), pods=P)
    assert await warnings(added, LAN, NET1, old=old) == []
    assert await warnings(old, LAN, NET1, old=added) == []
    moved = ours("10.9.9.8/24")
    assert len(await warnings(moved, LAN, NET1, old=old)) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"sub_resource": ""},
        {"sub_resource": "binding"},
        {"operation": "CREATE"},
        {"kind": GroupVersionKind("resource.k8s.io", "v1", "ResourceClaimTemplate")},
        {"kind": GroupVersionKind("example.com", "v1", "ResourceClaim")},
        {"namespace": "kube-system"},
        {"namespace": "berth-system"},
    ],
)
async def test_other_requests_are_passed_over(fields: JSON) -> None:
    twice = claim("c", entry("d0", interfaceName="net1"), entry("d1", interfaceName="net1"), pods=P)
    assert len(await warnings(twice)) == 2
    assert await warnings(twice, **fields) == []


async def test_of_a_claim_that_is_being_deleted_changes_are_checked() -> None:
    """Its drivers finish by removing what they have written, which changes no entry."""
    ending = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert len(await warnings(ours("10.9.9.9/24", **ending), LAN, NET1)) == 1
    assert await warnings(ours("10.9.9.9/24", **ending), LAN, NET1, old=ours("10.9.9.9/24")) == []
    assert await warnings(claim("c", pods=P, **ending), LAN, NET1, old=ours("10.9.9.9/24")) == []


async def test_named_drivers_are_denied_and_others_warned() -> None:
    second = entry("d1", "Other.Example", interfaceName="net1", ips=["10.0.1.9/24"])
    both = claim("c", entry("d0", interfaceName="net1", ips=["10.0.1.8/24"]), second, pods=P)
    decision = await reviewed(both, LAN, NET1, deny=("OTHER.example",))
    assert (decision.allowed, decision.code, decision.reason) == (False, 422, "InvalidNetworkData")
    assert "devices[1].networkData.ips[0]" in decision.message
    assert "devices[0]" not in decision.message
    fine = claim("c", entry("d0", interfaceName="net1", ips=["10.0.1.8/24"]), pods=P)
    assert len(await warnings(fine, LAN, NET1, deny=("other.example",))) == 1


def test_a_driver_is_named_as_drivers_are() -> None:
    assert AdmissionSettings.load({"claims_deny_drivers": "Dra.Net, b"}).claims_deny_drivers == ("dra.net", "b")
    with pytest.raises(UsageError, match=r"--claims-deny-drivers: 'dra_net' .*lower-case letters, digits"):
        AdmissionSettings.load({"claims_deny_drivers": "dra_net"})


HOSTILE: tuple[Any, ...] = (
    {},
    {"metadata": None},
    {"metadata": {}, "status": []},
    {"metadata": {}, "status": {"devices": {"a": 1}}},
    {"metadata": {}, "status": {"devices": [None]}},
    {"metadata": {}, "status": {"devices": [{"driver": ["x"], "networkData": {"ips": []}}]}},
    {"metadata": {}, "status": {"devices": [{"driver": 1, "pool": None, "device": {}, "networkData": {"a": 1}}]}},
    {"metadata": {}, "status": {"devices": [entry("d0") | {"networkData": ["x"]}]}},
    {"metadata": {}, "status": {"devices": [entry("d0", ips=5)]}},
    {"metadata": {}, "status": {"devices": [entry("d0", ips=["10.0.0.5/24"])], "reservedFor": [None]}},
    {"metadata": {}, "status": {"devices": [entry("d0", ips=["10.0.0.5/24"])], "reservedFor": {"resource": "pods"}}},
)


@pytest.mark.parametrize("obj", HOSTILE)
@pytest.mark.parametrize("swapped", [False, True])
async def test_objects_of_other_shapes_get_an_answer(obj: Any, *, swapped: bool) -> None:
    chain = await reviewing(LAN, NET1)
    fine = ours("10.0.0.5/24")
    decision = (await chain.review(status_update(*((fine, obj) if swapped else (obj, fine))))).decision
    assert decision.allowed or (decision.code == 400 and "cannot be read" in decision.message)


@pytest.mark.parametrize("obj", [None, [], "x", 5])
async def test_what_is_no_object_is_refused(obj: Any) -> None:
    decision = await reviewed(obj, LAN, NET1)
    assert (decision.allowed, decision.code) == (False, 400)
    assert "want a JSON object" in decision.message


async def test_odd_members_of_network_data_are_passed_over() -> None:
    odd = claim("c", entry("d0", interfaceName={"a": []}, ips=[None, 5, "x", "10.0.0.5", "10.0.0.300/24"]), pods=P)
    assert await warnings(odd, LAN, NET1) == []


async def test_many_entries_give_few_lines() -> None:
    devices = (entry(f"d{n}", interfaceName="net1", ips=["10.9.9.9/24"] * 16) for n in range(120))
    found = await warnings(claim("c", *devices, pods=P), LAN, NET1)
    assert len(found) == 51
    assert found[-1] == f"and {120 * 17 - 50} more warnings"


async def test_no_device_of_too_many_is_looked_at() -> None:
    obj = claim("c", *(entry(f"d{n}", interfaceName="net1", ips=["10.9.9.9/24"] * 16) for n in range(129)), pods=P)
    decision = await reviewed(obj, LAN, NET1)
    assert (decision.allowed, decision.message) == (False, "status.devices: want at most 128, got 129")


def test_caches_keep_nothing_of_objects_without_networks() -> None:
    assert stored_network_pod(network_pod("p")) is None, "the network of the cluster is no attachment"
    assert stored_network_pod({"metadata": {"name": "p"}}) is None
    assert stored_claim(claim("c", pods=P)) is None
    assert stored_claim({"metadata": {"name": "c"}}) is None
    assert stored_claim(ours("10.0.0.5/24", deletionTimestamp="2026-01-01T00:00:00Z")) is None


def test_claims_and_pods_are_read_only_where_claims_are_reviewed() -> None:
    wanted = {("resource.k8s.io", "resourceclaims", verb) for verb in ("list", "watch")}

    def said(**settings: Any) -> set[tuple[str, str, str]]:
        return {
            (one.group, resource, verb)
            for one in permissions_of("webhook", **settings)
            for resource in one.resources
            for verb in one.verbs
        }

    assert wanted <= said(claims=True)
    assert not wanted & said()


NETS, ADDRESSES, NAMES = ("ns/lan", "ns/other", "cbr0"), ("10.0.0.5", "10.0.0.6", "2001:db8::5"), ("p", "q")
interfaces = st.builds(attached, st.sampled_from(["net1", "net2"]), network=st.sampled_from(NETS))
pods = st.builds(
    network_pod, st.sampled_from(NAMES), interfaces, interfaces, uid=st.sampled_from(["p-uid", "q-uid", "u"])
)
entries = st.builds(
    lambda interface, ips: entry("d", interfaceName=interface, ips=[f"{address}/24" for address in ips]),
    st.sampled_from(["net1", "net2", ""]),
    st.lists(st.sampled_from(ADDRESSES)),
)
claims = st.builds(
    lambda name, held, reserved: claim(name, *held, pods=reserved),
    st.sampled_from("cd"),
    st.lists(entries, max_size=2),
    st.sampled_from([(), ("p",), ("q",), ("p", "q")]),
)
removed = st.sampled_from([*(("pods", name) for name in NAMES), ("claims", "c"), ("claims", "d")])


@given(st.lists(st.one_of(pods, claims, removed), max_size=12))
def test_claims_are_found_by_the_network_of_their_pod_in_whatever_order_both_change(changes: list[Any]) -> None:
    views = Views(
        Store(stored_claim, indices={BY_POD: lambda held: [held.pod.uid] if held.pod else []}),
        Store(stored_network_pod, indices={BY_ADDRESS: lambda pod: pod.addresses()}),
        Store(stored_attachment),
    )
    for change in changes:
        if isinstance(change, tuple):
            getattr(views, change[0]).remove("ns", change[1])
        else:
            (views.pods if change["kind"] == "Pod" else views.claims).upsert(change)
    for network in NETS[:2]:
        for address in map(parse_ip, ADDRESSES):
            expected = {
                held.key
                for held in views.claims.values()
                if (pod := views.pod_of(held)) is not None
                and any(address in its.addresses and pod.network_of(its.interface) == network for its in held.entries)
            }
            holding = [held.key for held in views.holding(network, address)]
            assert len(holding) == len(expected)
            assert {*holding} == expected
    assert views.claims.failures == views.pods.failures == 0
