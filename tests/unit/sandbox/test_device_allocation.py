"""Devices as the scheduler stand-in allocates them."""

from __future__ import annotations

from typing import Any

import pytest

from app.claims.model import DeviceKey
from app.devtools.sandbox.standins.devices.allocation import Wanted, allocate
from app.devtools.sandbox.standins.devices.fitting import ELSEWHERE, NOT_ALLOCATED, ClassMissing, Fit, Stock
from app.devtools.sandbox.standins.devices.pools import devices_of
from app.devtools.sandbox.standins.devices.results import allocation_of
from app.devtools.sandbox.standins.devices.selecting import Refused
from app.devtools.sandbox.standins.placement import place
from tests.support.devices import (
    DRIVER,
    FOO,
    claim_spec,
    container,
    device,
    device_class,
    exactly,
    node,
    resource_slice,
)

JSON = dict[str, Any]
VFS = resource_slice(
    device("vf0", numa=0, kind="x"), device("vf1", numa=1, kind="x"), device("vf2", numa=1), device("vf3", numa=2)
)
RACK = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]}
CLASSES = {DRIVER: device_class(config=[{"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}])}


def served(
    *specs: JSON, slices: list[JSON] | None = None, taken: set[str] | None = None, on: JSON | None = None
) -> Any:
    """The (request, device) pairs of each claim, None where they are not all served."""
    devices = devices_of([VFS] if slices is None else slices, on or node())
    used = {DeviceKey(DRIVER, "a", name) for name in taken or ()}
    chosen = allocate([Wanted(f"ns/c{at}", spec) for at, spec in enumerate(specs)], CLASSES, devices, used)
    return chosen and [[(one.request, one.device.key.device) for one in claim] for claim in chosen]


def test_requests_get_devices_in_their_order() -> None:
    spec = claim_spec(exactly("one"), exactly("two", count=2))
    assert served(spec, claim_spec(exactly("three"))) == [
        [("one", "vf0"), ("two", "vf1"), ("two", "vf2")],
        [("three", "vf3")],
    ]
    assert served(spec, claim_spec(exactly("three", count=2))) is None
    assert served(claim_spec(exactly()), taken={"vf0", "vf1"}) == [[("r", "vf2")]]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        (f'device.attributes["{DRIVER}"].numa == 1', "vf1"),
        (f'device.attributes["{DRIVER}"].numa > 1 && device.driver.endsWith(".com")', "vf3"),
        (f'has(device.attributes["{DRIVER}"].kind) ? false : true', "vf2"),
        ('!has(device.attributes["other.com"].kind)', "vf0"),
        ('!("other.com" in device.attributes && device.attributes["other.com"].x == 1)', "vf0"),
        ('!("other.com" in device.attributes)', "vf0"),
        (f'"{DRIVER}" in device.attributes && device.attributes["{DRIVER}"].numa == 2', "vf3"),
    ],
)
def test_selectors_of_requests_choose(selector: str, found: str) -> None:
    assert served(claim_spec(exactly(selector=selector))) == [[("r", found)]]


def test_selectors_of_classes_choose_too() -> None:
    foreign = {**VFS, "spec": {**VFS["spec"], "driver": "other.com"}}
    assert served(claim_spec(exactly()), slices=[foreign]) is None


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (
            f'device.attributes["{DRIVER}"].nope == 3',
            "claim ns/c0: selector #0: CEL runtime error: no such key: nope",
        ),
        ("device.nope == 3", "claim ns/c0: selector #0: CEL compile error: "),
        ('semver("1.0.0").isLessThan(semver("2.0.0"))', "claim ns/c0: selector #0: CEL compile error: "),
        ("device.driver", "must evaluate to bool"),
    ],
)
def test_a_selector_without_a_value_is_refused(selector: str, message: str) -> None:
    with pytest.raises(Refused, match=message.split("[", maxsplit=1)[0].replace("#", r"\#")) as refused:
        served(claim_spec(exactly(selector=selector)))
    assert message in str(refused.value)


def test_all_means_every_device_that_matches_and_none_in_use() -> None:
    spec = claim_spec(exactly(selector=f'device.attributes["{DRIVER}"].numa == 1', allocationMode="All"))
    assert served(spec) == [[("r", "vf1"), ("r", "vf2")]]
    assert served(spec, taken={"vf2"}) is None
    assert served(spec, slices=[]) is None


def test_the_first_alternative_that_can_be_served_is_taken() -> None:
    names = {"many": 5, "two": 2, "one": 1}
    request = {
        "name": "r",
        "firstAvailable": [{"name": name, "deviceClassName": DRIVER, "count": count} for name, count in names.items()],
    }
    assert served(claim_spec(request)) == [[("r/two", "vf0"), ("r/two", "vf1")]]
    assert served(claim_spec(request), taken={"vf0", "vf1", "vf2"}) == [[("r/one", "vf3")]]


def test_constraints_bind_devices_together() -> None:
    numa = f"{DRIVER}/numa"
    both = [exactly("p"), exactly("q")]
    assert served(claim_spec(*both, constraints=[{"matchAttribute": numa}])) == [[("p", "vf1"), ("q", "vf2")]]
    assert served(claim_spec(*both, constraints=[{"matchAttribute": numa}]), taken={"vf2"}) is None
    assert served(claim_spec(*both, constraints=[{"matchAttribute": numa, "requests": ["p"]}])) == [
        [("p", "vf0"), ("q", "vf1")]
    ]
    distinct = claim_spec(exactly("p", count=3), constraints=[{"distinctAttribute": numa}])
    assert served(distinct) == [[("p", "vf0"), ("p", "vf1"), ("p", "vf3")]]
    lacking = claim_spec(exactly(count=2), constraints=[{"matchAttribute": f"{DRIVER}/kind"}])
    assert served(lacking) == [[("r", "vf0"), ("r", "vf1")]]
    assert served(lacking, taken={"vf0"}) is None


def test_admin_access_uses_devices_of_others_and_takes_none() -> None:
    admin = claim_spec(exactly("watch", adminAccess=True))
    assert served(admin, claim_spec(exactly()), taken={"vf1", "vf2", "vf3"}) == [[("watch", "vf0")], [("r", "vf0")]]
    assert served(admin, taken={"vf0", "vf1", "vf2", "vf3"}) == [[("watch", "vf0")]]


def test_a_tainted_device_is_for_requests_that_tolerate_it() -> None:
    taint = {"key": "broken", "value": "", "effect": "NoSchedule"}
    slices = [resource_slice({**device("vf0"), "taints": [taint]})]
    assert served(claim_spec(exactly()), slices=slices) is None
    tolerating = exactly(tolerations=[{"key": "broken", "operator": "Exists"}])
    assert served(claim_spec(tolerating), slices=slices) == [[("r", "vf0")]]


def test_the_newest_generation_of_a_pool_counts_where_it_is_complete() -> None:
    old, new = resource_slice(device("old")), resource_slice(device("new"), generation=2)
    assert served(claim_spec(exactly()), slices=[new, old]) == [[("r", "new")]]
    half = resource_slice(device("half"), generation=3, count=2)
    assert served(claim_spec(exactly()), slices=[new, old, half]) is None
    rest = resource_slice(device("rest"), generation=3, count=2, name="rest")
    assert served(claim_spec(exactly(count=2)), slices=[new, half, rest]) == [[("r", "half"), ("r", "rest")]]


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ({"nodeName": "a"}, 1),
        ({"nodeName": "b"}, 0),
        ({"allNodes": True}, 1),
        ({"nodeSelector": RACK}, 1),
    ],
    ids=["this node", "another node", "all nodes", "by labels"],
)
def test_a_slice_is_of_some_nodes(where: JSON, count: int) -> None:
    found = devices_of([resource_slice(device("d"), **where)], node(labels={"rack": "r1"}))
    assert len(found) == count


def test_a_device_may_say_its_node_itself() -> None:
    devices = [{**device("here"), "nodeName": "a"}, {**device("there"), "nodeName": "b"}]
    found = devices_of([resource_slice(*devices, perDeviceNodeSelection=True)], node())
    assert [one.key.device for one in found] == ["here"]


def test_devices_with_shared_capacity_are_left_out() -> None:
    devices = [{**device("d"), "allowMultipleAllocations": True}, {**device("e"), "consumesCounters": [{}]}]
    assert devices_of([resource_slice(*devices)], node()) == []
    with pytest.raises(Refused, match="does not allocate capacity"):
        served(claim_spec(exactly(capacity={"requests": {"memory": "1Gi"}})))


def allocation(spec: JSON, slices: list[JSON], at: JSON) -> JSON:
    chosen = allocate([Wanted("ns/c", spec)], CLASSES, devices_of(slices, at), ())
    assert chosen is not None
    return allocation_of(spec, chosen[0], CLASSES, at["metadata"]["name"])


def test_an_allocation_has_results_and_parameters_of_classes_before_those_of_the_claim() -> None:
    """As a kube-scheduler 1.36 answers for the same claim."""
    alternative = {"name": "two", "firstAvailable": [{"name": "sub", "deviceClassName": DRIVER}]}
    mine = {"opaque": {"driver": DRIVER, "parameters": {"b": 2}}}
    spec = claim_spec(exactly("vf"), alternative, config=[{"requests": ["vf"], **mine}, {"requests": ["x"], **mine}])
    assert allocation(spec, [VFS], node()) == {
        "devices": {
            "results": [
                {"request": "vf", "driver": DRIVER, "pool": "a", "device": "vf0"},
                {"request": "two/sub", "driver": DRIVER, "pool": "a", "device": "vf1"},
            ],
            "config": [
                {
                    "source": "FromClass",
                    "requests": ["vf", "two/sub"],
                    "opaque": {"driver": DRIVER, "parameters": {"a": 1}},
                },
                {"source": "FromClaim", "requests": ["vf"], "opaque": {"driver": DRIVER, "parameters": {"b": 2}}},
            ],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
        },
    }


def test_an_allocation_is_bound_to_the_nodes_of_its_devices() -> None:
    everywhere = resource_slice(device("d"), allNodes=True)
    assert "nodeSelector" not in allocation(claim_spec(exactly()), [everywhere], node())
    racked = resource_slice(device("d"), nodeSelector=RACK)
    found = allocation(claim_spec(exactly()), [racked], node(labels={"rack": "r1"}))
    assert found["nodeSelector"] == RACK


def fit(*claims: JSON, containers: list[JSON] | None = None, classes: JSON | None = None) -> Fit:
    bodies = [
        {"metadata": {"namespace": "ns", "name": f"c{at}"}, **(claim if "spec" in claim else {"spec": claim})}
        for at, claim in enumerate(claims)
    ]
    pod = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": containers or [container("c")]}}
    return Fit(pod, bodies, None, Stock(classes or CLASSES, [VFS], frozenset()))


def test_a_claim_that_names_no_class_that_exists_is_said() -> None:
    with pytest.raises(ClassMissing, match=r"^request r: device class nope\.com does not exist$"):
        fit(claim_spec(exactly(of="nope.com")))


def test_an_allocated_claim_keeps_the_pod_on_its_node() -> None:
    allocated = {
        "spec": claim_spec(exactly()),
        "status": {"allocation": allocation(claim_spec(exactly()), [VFS], node())},
    }
    found = fit(allocated)
    assert found.refusal(node("a")) is None
    assert found.refusal(node("b")) == ELSEWHERE


def test_the_message_is_the_schedulers() -> None:
    """As a kube-scheduler 1.36 writes it."""
    found = fit(claim_spec(exactly(count=30)))
    placement = place(found.pod, [node("a"), node("b")], [], {}, found)
    assert placement.message == (
        f"0/2 nodes are available: 2 {NOT_ALLOCATED}. still not schedulable, preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )


def test_capacity_of_the_node_wins_over_devices() -> None:
    found = fit(containers=[container("c", 1)], classes={DRIVER: device_class(extended=FOO)})
    plugged, bare, none = node("z", **{FOO: "1"}), node("a"), node("a", **{FOO: "0"})
    assert (set(found.served(plugged)), set(found.served(bare)), set(found.served(none))) == (set(), {FOO}, {FOO})
    assert place(found.pod, [bare, plugged], [], {}, found).node == "z"
    assert place(found.pod, [bare], [], {}, found).node == "a"
