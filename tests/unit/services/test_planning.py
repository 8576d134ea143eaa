"""Endpoints of Pods and their slices, as tables and as properties of any sequence of changes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.services.addresses import Network
from app.services.caches import stored_service
from app.services.model import MOST_ENDPOINTS, Pod, Service, stored_pod
from app.services.planning import Inputs, ServicePlan, pack, plan_service
from app.services.slices import Endpoint, EndpointSlice, Wanted, read_endpoint, stored_endpoint_slice

JSON = dict[str, Any]
NETWORK = Network("ns/vlan", unconfined=True)
ZONES = {"n1": "a", "n2": ""}


def service(**spec: Any) -> Service:
    annotations = {"berth.dev/network": "vlan", "berth.dev/selector": "app=x"}
    metadata = {"namespace": "ns", "name": "db", "uid": "service", "annotations": annotations}
    said = {"clusterIP": "None", "ipFamilies": ["IPv4"], "ports": [{"port": 80}], **spec}
    found = stored_service({"metadata": metadata, "spec": said})
    assert found is not None
    return found


def pod(name: str, *ips: str, ready: bool = True, deleting: bool = False, phase: str = "Running", **spec: Any) -> Pod:
    status = json.dumps([{"name": "ns/vlan", "interface": "net1", "ips": ips}])
    annotations = {"k8s.v1.cni.cncf.io/network-status": status}
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "annotations": annotations}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": str(ready)}]
    said = {"nodeName": "n1", "containers": [], **spec}
    found = stored_pod({"metadata": metadata, "spec": said, "status": {"phase": phase, "conditions": conditions}})
    assert found is not None
    return found


def plan(*pods: Pod, of: Service | None = None, slices: tuple[EndpointSlice, ...] = (), **more: Any) -> ServicePlan:
    return plan_service(Inputs(of or service(), NETWORK, pods, slices, **{"zones": ZONES, **more}))


def written(
    made: ServicePlan, slices: tuple[EndpointSlice, ...] = (), of: Service | None = None
) -> tuple[EndpointSlice, ...]:
    """The slices after the plan, as an API server returns them."""
    found = {one.key: one for one in slices}
    for one in made.delete:
        del found[one.key]
    for one, wanted in made.change:
        found[one.key] = stored(one.key[1], wanted, of or service(), version=one.version + 1)
    for name, wanted in made.create.items():
        found["ns", name] = stored(name, wanted, of or service())
    return tuple(one for _, one in sorted(found.items()))


def stored(name: str, wanted: Wanted, of: Service, *, version: int = 1) -> EndpointSlice:
    body = wanted.body(name, of)
    body["metadata"] |= {"uid": name, "resourceVersion": str(version)}
    found = stored_endpoint_slice(body)
    assert found is not None
    return found


def endpoints(made: ServicePlan) -> list[Endpoint]:
    return [one for wanted in made.create.values() for one in wanted.endpoints]


@pytest.mark.parametrize(
    ("made", "published", "conditions"),
    [
        (pod("p", "10.0.0.1"), False, (True, True, False)),
        (pod("p", "10.0.0.1", ready=False), False, (False, False, False)),
        (pod("p", "10.0.0.1", deleting=True), False, (False, True, True)),
        (pod("p", "10.0.0.1", deleting=True, ready=False), False, (False, False, True)),
        (pod("p", "10.0.0.1", ready=False), True, (True, False, False)),
        (pod("p", "10.0.0.1", deleting=True), True, (True, True, True)),
    ],
)
def test_conditions(made: Pod, conditions: tuple[bool, bool, bool], *, published: bool) -> None:
    (found,) = endpoints(plan(made, of=service(publishNotReadyAddresses=published)))
    assert (found.ready, found.serving, found.terminating) == conditions


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_is_no_endpoint(phase: str) -> None:
    assert plan(pod("p", "10.0.0.1", phase=phase)) == ServicePlan()


@pytest.mark.parametrize(
    ("spec", "node", "zone", "hostname"),
    [
        ({}, "n1", "a", ""),
        ({"nodeName": "n2"}, "n2", "", ""),
        ({"hostname": "h", "subdomain": "db"}, "n1", "a", "h"),
        ({"hostname": "h", "subdomain": "other"}, "n1", "a", ""),
        ({"hostname": "h"}, "n1", "a", ""),
    ],
)
def test_places_and_hostnames(spec: JSON, node: str, zone: str, hostname: str) -> None:
    (found,) = endpoints(plan(pod("p", "10.0.0.1", **spec)))
    assert (found.node, found.zone, found.hostname) == (node, zone, hostname)
    assert read_endpoint(found.body()) == found


def test_a_node_that_is_not_known() -> None:
    """As with Kubernetes, the Pod waits for it, unless all addresses are published."""
    made = pod("p", "10.0.0.1", nodeName="n9")
    assert plan(made).skipped == (("p", "NoNode"),)
    assert not plan(made).create
    assert [one.zone for one in endpoints(plan(made, of=service(publishNotReadyAddresses=True)))] == [""]


WEB = {"name": "web", "port": 80, "targetPort": "http"}


def container(number: int, name: str = "http", **more: Any) -> JSON:
    return {"name": "c", "ports": [{"name": name, "containerPort": number}], **more}


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        ({"containers": [container(8080)]}, [8080]),
        ({"containers": [container(1, "other"), container(8081)]}, [8081]),
        ({"containers": [], "initContainers": [container(8082, restartPolicy="Always")]}, [8082]),
        ({"containers": [], "initContainers": [container(8082)]}, []),
        ({"containers": [{"ports": [{"name": "http", "containerPort": 1, "protocol": "UDP"}]}]}, []),
    ],
)
def test_ports_by_name(spec: JSON, numbers: list[int]) -> None:
    made = plan(pod("p", "10.0.0.1", **spec), of=service(ports=[WEB]))
    (wanted,) = made.create.values()
    assert [one.number for one in wanted.ports] == numbers


def test_pods_with_other_numbers_have_other_slices() -> None:
    pods = [pod(f"p{n}", f"10.0.0.{n}", containers=[container(8080 + n % 2)]) for n in range(1, 5)]
    made = plan(*pods, of=service(ports=[WEB, {"name": "fix", "port": 9}]))
    found = {tuple(port.number for port in one.ports): [e.pod for e in one.endpoints] for one in made.create.values()}
    assert found == {(9, 8080): ["p2", "p4"], (9, 8081): ["p1", "p3"]}


def test_families_have_slices_of_their_own() -> None:
    of = service(ipFamilies=["IPv4", "IPv6"])
    made = plan(pod("p", "10.0.0.1", "fd00::1"), pod("q", "10.0.0.2"), of=of)
    found = {one.family: [e.address for e in one.endpoints] for one in made.create.values()}
    assert found == {"IPv4": ["10.0.0.1", "10.0.0.2"], "IPv6": ["fd00::1"]}
    slices = written(made, of=of)
    after = plan(pod("p", "10.0.0.1", "fd00::1"), pod("q", "10.0.0.2"), slices=slices)
    assert [one.family for one in after.delete] == ["IPv6"]
    assert (after.create, after.change) == ({}, ())
    assert plan(pod("p", "fd00::1")).skipped == (("p", "NoAddress"),)


def test_each_address_of_a_pod_is_an_endpoint() -> None:
    """Consumers of slices look at the first address of an endpoint only."""
    found = endpoints(plan(pod("p", "10.0.0.1", "10.0.0.2")))
    assert [one.body()["addresses"] for one in found] == [["10.0.0.1"], ["10.0.0.2"]]


def test_a_change_of_ports_reuses_the_slice() -> None:
    slices = written(plan(pod("p", "10.0.0.1")))
    made = plan(pod("p", "10.0.0.1"), of=service(ports=[{"port": 81}]), slices=slices)
    ((found, wanted),) = made.change
    assert (made.create, made.delete) == ({}, ())
    assert wanted.patch(found) == {"ports": [{"name": "", "port": 81, "protocol": "TCP"}]}


def test_labels_that_went_are_removed() -> None:
    slices = written(plan(pod("p", "10.0.0.1")))
    (found,) = slices
    other = replace(found, labels=(*found.labels, ("x", "y")))
    ((_, wanted),) = plan(pod("p", "10.0.0.1"), slices=(other,)).change
    assert wanted.patch(other) == {"metadata": {"labels": {**dict(found.labels), "x": None}}}


def test_slices_of_an_earlier_service_go() -> None:
    (found,) = written(plan(pod("p", "10.0.0.1")))
    old = replace(found, owner="earlier")
    made = plan(pod("p", "10.0.0.1"), slices=(old,))
    assert made.delete == (old,)
    assert len(made.create) == 1
    assert found.key[1] not in made.create, "the name is free only after the deletion"


def test_a_service_that_is_being_deleted_gets_no_slices() -> None:
    assert not plan(pod("p", "10.0.0.1"), of=replace(service(), deleting=True)).create


def test_names_are_always_the_same_and_free() -> None:
    pods = [pod(f"p{n}", f"10.0.{n // 250}.{n % 250 + 1}") for n in range(150)]
    names = list(plan(*pods).create)
    assert names == list(plan(*pods).create)
    assert [one.rpartition("-")[2] for one in names] == ["1", "2"]
    assert next(iter(plan(*pods, taken=frozenset(names[:1])).create)) == names[1]


def test_what_is_not_as_we_write_it_is_written_again() -> None:
    (found,) = written(plan(pod("p", "10.0.0.1"), pod("q", "10.0.0.2")))
    first, second = found.endpoints
    for odd in ((None, second), (first, second, None), (first, second, first), (second,)):
        ((_, wanted),) = plan(
            pod("p", "10.0.0.1"), pod("q", "10.0.0.2"), slices=(replace(found, endpoints=odd),)
        ).change
        assert sorted(wanted.endpoints) == sorted(found.endpoints)
    assert plan(pod("p", "10.0.0.1"), pod("q", "10.0.0.2"), slices=(found,)).change == ()


def test_a_condition_changes_one_slice() -> None:
    pods = [pod(f"p{n:03}", f"10.0.{n // 250}.{n % 250 + 1}") for n in range(450)]
    slices = written(plan(*pods))
    assert [len(one.endpoints) for one in slices] == [100, 100, 100, 100, 50]
    made = plan(*pods[:250], pod("p250", "10.0.1.1", ready=False), *pods[251:], slices=slices)
    assert (len(made.change), made.create, made.delete) == (1, {}, ())
    assert (made.ready, made.unready) == (449, 1)


def endpoint(number: int, *, ready: bool = True) -> Endpoint:
    return Endpoint(f"10.0.0.{number}", "ns", f"p{number}", f"uid-{number}", ready, ready, terminating=False)


pods_there = st.dictionaries(st.integers(0, 60), st.booleans())


@given(st.lists(pods_there, min_size=1, max_size=8), st.integers(1, 7))
def test_any_sequence_of_changes(states: list[dict[int, bool]], most: int) -> None:
    """Each endpoint is in one slice, as it is now; no slice is empty or too large; nothing changes without a reason."""
    slices: dict[str, tuple[Endpoint | None, ...]] = {}
    made = 0
    for state in states:
        wanted = [endpoint(number, ready=ready) for number, ready in state.items()]
        packed = pack(slices, wanted, most)
        after: dict[str, tuple[Endpoint | None, ...]] = dict(packed.kept)
        for one in packed.further:
            made += 1
            after[f"s{made:03}"] = one
        assert sorted(one for each in after.values() for one in each if one) == sorted(wanted)
        assert all(1 <= len(one) <= most for one in after.values())
        homes = {one.identity: name for name, each in slices.items() for one in each if one}
        for name, each in packed.kept.items():
            assert all(homes.get(one.identity, name) == name for one in each if one), "an endpoint has moved"
        again = pack(after, wanted, most)
        assert (again.kept, again.further) == (after, ())
        slices = after


@given(pods_there.filter(bool), st.integers(1, 7))
def test_one_more_or_less_changes_one_slice(state: dict[int, bool], most: int) -> None:
    wanted = [endpoint(number, ready=ready) for number, ready in state.items()]
    slices = {f"s{number}": one for number, one in enumerate(pack({}, wanted, most).further)}
    more = pack(slices, [*wanted, endpoint(99)], most)
    assert len(more.further) + sum(more.kept[name] != slices[name] for name in slices) == 1
    less = pack(slices, wanted[1:], most)
    assert less.further == ()
    assert sum(less.kept.get(name) != slices[name] for name in slices) == 1


def test_the_fullest_slice_that_changes_is_filled_first() -> None:
    wanted = [endpoint(number) for number in range(9)]
    slices = {"a": (*wanted[:1], endpoint(50)), "b": (*wanted[1:4], endpoint(51)), "c": tuple(wanted[4:6])}
    packed = pack(slices, wanted, 5)
    assert {name: len(one) for name, one in packed.kept.items()} == {"a": 2, "b": 5, "c": 2}
    assert packed.further == ()


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {}},
        {"labels": None},
        {"labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        {"labels": {"kubernetes.io/service-name": "db"}},
        {"ownerReferences": []},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "db", "uid": "service"}]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "db", "uid": "service", "controller": True}]},
    ],
)
def test_what_lacks_our_label_or_owner_is_not_ours(metadata: JSON) -> None:
    body = Wanted("IPv4", (), (), service().labels).body("db-1", service())
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    assert stored_endpoint_slice(body) is not None
    body["metadata"] |= metadata
    assert stored_endpoint_slice(body) is None


def test_a_slice_that_is_too_large_is_cut() -> None:
    wanted = [endpoint(number) for number in range(MOST_ENDPOINTS + 20)]
    packed = pack({"s": tuple(wanted)}, wanted)
    assert len(packed.kept["s"]) == MOST_ENDPOINTS
    assert [len(one) for one in packed.further] == [20]
