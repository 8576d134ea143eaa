"""What the planner of network data promises for all inputs."""

from __future__ import annotations

import json
from collections import Counter
from ipaddress import ip_interface
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.claims.format import format_problems
from app.claims.model import DEVICE_ID, NETWORK_STATUS, PCI_BUS_ID, RESOURCE_NAME
from app.claims.publishing.model import Inputs, Planned, stored_attachment
from app.claims.publishing.planning import plan_pod
from app.claims.slices import stored_slice
from app.claims.stored import Claim, ClaimPod, stored_claim, stored_pod
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.wire import encode_json

FEW = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
RESOURCES = ["example.com/foo", "example.com/bar"]
DRIVERS = ["vf.example.com", "dra.net", "gpu.example.com"]
NAMES = ["red", "blue", "green"]
PCI = [f"0000:3b:02.{number}" for number in range(4)]

text = st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=10
)
addresses = st.ip_addresses().map(str) | st.sampled_from(
    [
        "10.0.0.9",
        "::ffff:10.0.0.9",
        "fe80::1%eth0",
        "10.0.0.9/24",
        "10.0.0.9/0",
        "10.0.0.09",
        "127.0.0.1",
        "",
        "x",
        "::/0",
    ]
)
cidrs = st.sampled_from(["10.0.0.0/24", "10.0.0.9/8", "0.0.0.0/0", "10.0.0.1-10.0.0.9/28", "fd00::/64", "x/24", "10/8"])
subnets = st.dictionaries(st.sampled_from(["subnet", "range", "address"]), cidrs | anything, max_size=2)
ipam = st.dictionaries(
    st.sampled_from(["subnet", "range", "ranges", "ipRanges", "addresses"]),
    cidrs | st.lists(subnets, max_size=2) | st.lists(st.lists(subnets, max_size=2), max_size=2) | anything,
    max_size=3,
)
configs = (
    ipam.map(lambda one: json.dumps({"ipam": one}))
    | st.lists(ipam.map(lambda one: {"ipam": one}) | anything, max_size=2).map(
        lambda all_: json.dumps({"plugins": all_})
    )
    | anything.map(json.dumps)
    | text
)
macs = st.sampled_from(
    ["02:00:00:00:00:01", "0200.0000.0001", "02-00-00-00-00-AA", "x", "02:00", ":".join(["AB"] * 20)]
)


@st.composite
def attachments(draw: st.DrawFn, name: str) -> Any:
    annotations = {"k8s.v1.cni.cncf.io/resourceName": draw(st.sampled_from([*RESOURCES, " ", ""]))}
    return {
        "metadata": {"namespace": "ns", "name": name, "annotations": annotations},
        "spec": {"config": draw(configs)},
    }


@st.composite
def statuses(draw: st.DrawFn) -> str:
    """Every interface has a name of its own."""
    entries = []
    for number in range(draw(st.integers(0, 5))):
        entry: dict[str, Any] = {"name": draw(st.sampled_from(["ns/red", "ns/blue", "other/red", "cluster"]))}
        entry["interface"] = f"net{number}" + draw(st.sampled_from(["", "", "", "\u00e9" * 126, "\u00e9" * 127]))
        entry["ips"] = draw(st.lists(addresses, max_size=20))
        entry["mac"] = draw(macs)
        entry["default"] = draw(st.booleans()) if number == 0 else False
        if draw(st.booleans()):
            entry["device-info"] = {draw(st.sampled_from(["pci", "vdpa"])): {"pci-address": draw(st.sampled_from(PCI))}}
        entries.append(entry)
    return json.dumps(entries)


selections = st.fixed_dictionaries(
    {"name": st.sampled_from(NAMES)},
    optional={
        "interface": st.sampled_from(["net0", "net1", "net2", "a"]),
        "ips": st.lists(st.sampled_from(["10.0.0.9/20", "fd00::1/64", "10.0.0.9"]), max_size=2),
        "deviceID": st.sampled_from(PCI),
    },
)
networks = st.lists(selections, max_size=4).map(json.dumps) | st.lists(st.sampled_from(NAMES)).map(",".join) | text
parameters = st.fixed_dictionaries(
    {}, optional={"ifName": st.sampled_from(["net0", "net1"]) | anything}
) | st.fixed_dictionaries(
    {"interface": st.fixed_dictionaries({}, optional={"name": st.sampled_from(["net2"]) | anything}) | anything}
)
keys = st.fixed_dictionaries(
    {
        "driver": st.sampled_from(DRIVERS),
        "pool": st.sampled_from(["n1", "n2"]),
        "device": st.sampled_from(["d0", "d1", "d2"]),
        "request": st.sampled_from(["one", "two", "two/first"]),
    },
    optional={"adminAccess": st.booleans(), "shareID": st.sampled_from(["s1", "s2"])},
)


@st.composite
def claims(draw: st.DrawFn, name: str, *, extended: bool) -> Any:
    results = draw(st.lists(keys, max_size=3))
    config = [
        {
            "requests": draw(st.sampled_from([[], ["one"], ["two"]])),
            "opaque": {"driver": one["driver"], "parameters": draw(parameters)},
        }
        for one in results
    ]
    me, other = {"resource": "pods", "name": "app", "uid": "u"}, {"resource": "pods", "name": "b", "uid": "v"}
    group = {"resource": "podgroups", "name": "g", "uid": "w"}
    status: dict[str, Any] = {
        "reservedFor": draw(st.sampled_from([[me], [me], [me], [me, other], [other], [group], []]))
    }
    if draw(st.integers(0, 5)):
        status["allocation"] = {"devices": {"results": results, "config": config}}
    status["devices"] = [
        {
            **{name: one[name] for name in ("driver", "pool", "device")},
            "data": {"cniResult": draw(anything | st.just({"ips": [{"address": "10.0.0.9/21"}]}))},
        }
        for one in results[:1]
    ]
    owner = {"kind": "Pod", "name": "app", "uid": "u", "controller": True, "apiVersion": "v1"}
    metadata: dict[str, Any] = {
        "namespace": "ns",
        "name": name,
        "uid": name,
        "ownerReferences": [owner] if draw(st.booleans()) else [],
    }
    if extended:
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    return {"metadata": metadata, "status": status}


@st.composite
def slices(draw: st.DrawFn) -> Any:
    found = []
    for number, (driver, pool) in enumerate(
        draw(st.sets(st.tuples(st.sampled_from(DRIVERS), st.sampled_from(["n1", "n2"]))))
    ):
        for generation in range(1, draw(st.integers(1, 2)) + 1):
            devices = [
                {
                    "name": f"d{index}",
                    "attributes": draw(
                        st.fixed_dictionaries(
                            {},
                            optional={
                                DEVICE_ID: st.sampled_from(PCI).map(lambda one: {"string": one}),
                                RESOURCE_NAME: st.sampled_from(RESOURCES).map(lambda one: {"string": one}),
                                PCI_BUS_ID: st.sampled_from(PCI).map(lambda one: {"string": one}),
                            },
                        )
                    ),
                }
                for index in range(3)
            ]
            count = draw(st.sampled_from([1, 1, 2]))
            spec = {
                "driver": driver,
                "nodeName": "n1",
                "devices": devices,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            }
            found.append({"metadata": {"name": f"s{number}-{generation}"}, "spec": spec})
    return found


@st.composite
def inputs(draw: st.DrawFn) -> Inputs:
    annotations = {NETWORKS: draw(networks), NETWORK_STATUS: draw(statuses() | anything.map(json.dumps) | text)}
    if draw(st.booleans()):
        annotations[DEFAULT_NETWORK] = draw(st.sampled_from(["ns/red", "blue", "", "a,b"]) | text)
    resources = draw(st.dictionaries(st.sampled_from([*RESOURCES, "cpu"]), st.just("1"), max_size=1))
    pod = stored_pod(
        {
            "metadata": {"namespace": "ns", "name": "app", "uid": "u", "annotations": annotations},
            "spec": {
                "nodeName": draw(st.sampled_from(["n1", ""])),
                "hostNetwork": draw(st.integers(0, 9)) == 0,
                "containers": [{"resources": {"limits": resources}}],
                "resourceClaims": [
                    {"name": "a", "resourceClaimName": "a"},
                    {"name": "b", "resourceClaimTemplateName": "t"},
                ],
            },
            "status": {
                "phase": draw(st.sampled_from(["Running"] * 9 + ["Failed"])),
                "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "b"}],
                "extendedResourceClaimStatus": {
                    "resourceClaimName": "c",
                    "requestMappings": [{"requestName": "one", "resourceName": RESOURCES[0]}],
                },
            },
        }
    )
    assert pod is not None
    found = [stored_claim(draw(claims(name, extended=name == "c"))) for name in draw(st.sets(st.sampled_from("abcd")))]
    kept = [stored_attachment(draw(attachments(name))) for name in draw(st.sets(st.sampled_from(NAMES)))]
    return Inputs(pod, tuple(found), tuple(map(stored_slice, draw(slices()))), {one.key: one for one in kept})


def own(pod: ClaimPod, claim: Claim) -> bool:
    return claim.key[1] in pod.claim_names and claim.allocated and [one.uid for one in claim.consumers] == [pod.uid]


@FEW
@given(inputs=inputs(), data=st.data())
def test_what_is_promised_for_all_inputs(inputs: Inputs, data: st.DataObject) -> None:
    """One test, since to make the inputs costs more than all that is asked of them."""
    planned = plan_pod(inputs)
    assert_each_device_of_an_exclusive_claim_is_published_or_has_a_reason(inputs, planned)
    assert_no_interface_is_published_twice(planned)
    assert_what_is_published_passes_the_rules_of_the_api(planned)
    assert_the_order_of_claims_slices_and_results_does_not_matter(inputs, planned, data)


def assert_each_device_of_an_exclusive_claim_is_published_or_has_a_reason(inputs: Inputs, planned: Planned) -> None:
    reasons = Counter((one.claim, one.device) for one in planned.unpublished)
    assert set(reasons.values()) <= {1}
    for claim in inputs.claims:
        devices = {one.device for one in claim.results}
        published = set(planned.data.get(claim.key, {}))
        assert published <= devices
        if claim.key[1] not in inputs.pod.claim_names:
            assert (claim.key, None) not in reasons
        elif not own(inputs.pod, claim):
            assert (claim.key, None) in reasons
        if not own(inputs.pod, claim) or (claim.key, None) in reasons:
            assert published == set()
            assert not any((claim.key, device) in reasons for device in devices)
        else:
            assert published == {device for device in devices if (claim.key, device) not in reasons}


def assert_no_interface_is_published_twice(planned: Planned) -> None:
    names = Counter(one.interface for one in published(planned) if one.interface)
    assert set(names.values()) <= {1}


def assert_the_order_of_claims_slices_and_results_does_not_matter(
    inputs: Inputs, first: Planned, data: st.DataObject
) -> None:
    turned = Inputs(
        inputs.pod,
        tuple(data.draw(st.permutations(inputs.claims))),
        tuple(data.draw(st.permutations(inputs.slices))),
        dict(reversed(list(inputs.attachments.items()))),
    )
    second = plan_pod(turned)
    assert first == second
    assert [list(one) for one in first.data.values()] == [list(one) for one in second.data.values()]


def assert_what_is_published_passes_the_rules_of_the_api(planned: Planned) -> None:
    """The validation of networkData in resource.k8s.io/v1."""
    for one in published(planned):
        body = one.body()
        assert body
        assert encode_json(body)
        assert len(one.interface.encode()) <= 256
        assert list(format_problems(one.body(), "networkData")) == [], "a policy of Berth would refuse it"
        assert len(one.hardware_address.encode()) <= 128
        assert len(one.ips) == len(set(one.ips)) <= 16
        assert set(one.unknown_prefixes) <= set(one.ips)
        for address in map(ip_interface, one.ips):
            assert getattr(address, "ipv4_mapped", None) is None
            assert "%" not in str(address)
            assert address.network.prefixlen > 0
        assert [str(ip_interface(ip)) for ip in one.ips] == list(one.ips)


def published(planned: Planned) -> Any:
    return [one for found in planned.data.values() for one in found.values()]
