"""The stand-in for Kueue: which flavors Pods get, and what they then use."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from app.devtools.kueue.flavors import Assignment, PodSet, Unfit, Usage, assign, quantity
from app.kinds.requests import pod_requests

JSON = dict[str, Any]
SPOT: JSON = {
    "spec": {"nodeLabels": {"kind": "spot"}, "nodeTaints": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]}
}
FLAVORS: dict[str, JSON] = {
    "plain": {"spec": {"nodeLabels": {"kind": "plain"}}},
    "spot": SPOT,
    "soft": {"spec": {"nodeTaints": [{"key": "soft", "effect": "PreferNoSchedule"}]}},
    "open": {"spec": {**SPOT["spec"], "tolerations": [{"key": "spot", "operator": "Exists"}]}},
}
TOLERANT: JSON = {"tolerations": [{"key": "spot", "value": "yes"}]}


def group(resources: tuple[str, ...], **flavors: tuple[str, ...]) -> JSON:
    """A resource group; of each flavor the quotas in the order of the resources."""
    return {
        "coveredResources": list(resources),
        "flavors": [
            {
                "name": name,
                "resources": [{"name": r, "nominalQuota": q} for r, q in zip(resources, quotas, strict=True)],
            }
            for name, quotas in flavors.items()
        ],
    }


def pods(count: int = 1, spec: JSON | None = None, name: str = "main", **requests: str) -> PodSet:
    container = {"resources": {"requests": requests}}
    one = pod_requests({"spec": {"containers": [container]}})
    return PodSet(name, count, {key: value * count for key, value in one.items()}, spec or {})


def assigned(*pod_sets: PodSet, groups: list[JSON], used: Usage | None = None) -> Assignment:
    found = assign(pod_sets, groups, FLAVORS, used or {})
    assert isinstance(found, Assignment), found
    return found


def unfit(*pod_sets: PodSet, groups: list[JSON]) -> Unfit:
    found = assign(pod_sets, groups, FLAVORS, {})
    assert isinstance(found, Unfit), found
    return found


def test_all_resources_of_a_group_are_of_one_flavor() -> None:
    groups = [group(("cpu", "memory"), plain=("4", "1Gi"), soft=("2", "4Gi"))]
    found = assigned(pods(2, cpu="1", memory="1Gi"), groups=groups)
    assert found.flavors == ({"cpu": "soft", "memory": "soft"},)
    assert found.usage == {("soft", "cpu"): 2, ("soft", "memory"): 2 * 1024**3}


def test_groups_have_flavors_of_their_own() -> None:
    groups = [group(("cpu",), plain=("4",)), group(("gpu",), soft=("4",))]
    assert assigned(pods(cpu="1", gpu="1"), groups=groups).flavors == ({"cpu": "plain", "gpu": "soft"},)


def test_the_first_flavor_with_room_is_taken() -> None:
    groups = [group(("cpu",), plain=("4",), soft=("4",))]
    assert assigned(pods(cpu="2"), groups=groups).flavors == ({"cpu": "plain"},)
    used = {("plain", "cpu"): Decimal(3)}
    assert assigned(pods(cpu="2"), groups=groups, used=used).flavors == ({"cpu": "soft"},)


def test_pod_sets_of_one_workload_count_together() -> None:
    groups = [group(("cpu",), plain=("4",), soft=("4",))]
    found = assigned(pods(3, name="a", cpu="1"), pods(2, name="b", cpu="1"), groups=groups)
    assert found.flavors == ({"cpu": "plain"}, {"cpu": "soft"})
    refused = unfit(pods(3, name="a", cpu="1"), pods(2, name="b", cpu="1"), groups=[group(("cpu",), plain=("4",))])
    assert refused.reason == "ExceedsMaxQuota"
    assert "pod set b: insufficient quota for cpu in flavor plain: 5 requested, 4 in all" in refused.message


def test_what_lacks_now_is_named_with_its_figures() -> None:
    groups = [group(("cpu", "memory"), plain=("4", "4Gi"))]
    found = assigned(pods(cpu="2", memory="512Mi"), groups=groups, used={("plain", "cpu"): Decimal(3)})
    assert found.flavors == ({"cpu": "plain", "memory": "plain"},)
    assert found.lacking == (
        "couldn't assign flavors to pod set main: "
        "insufficient unused quota for cpu in flavor plain: 2 requested, 4 in all"
    )


def test_a_resource_that_the_queue_has_not() -> None:
    found = unfit(pods(cpu="1", **{"example.com/gpu": "1"}), groups=[group(("cpu",), plain=("4",))])
    assert (found.reason, found.message) == (
        "NoMatchingFlavor",
        "couldn't assign flavors to pod set main: resource example.com/gpu unavailable in ClusterQueue",
    )
    assigned(pods(cpu="1", **{"example.com/gpu": "0"}), groups=[group(("cpu",), plain=("4",))])


def test_pods_are_counted_where_the_queue_has_them() -> None:
    groups = [group(("pods",), plain=("4",))]
    assert assigned(pods(3), groups=groups).usage == {("plain", "pods"): 3}
    assert unfit(pods(5), groups=groups).reason == "ExceedsMaxQuota"


def test_pods_without_requests_need_no_flavor() -> None:
    assert assigned(pods(), groups=[group(("cpu",), spot=("1",))]).flavors == ({},)


def term(*expressions: JSON) -> JSON:
    return {"matchExpressions": list(expressions)}


def required(*terms: JSON) -> JSON:
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
        }
    }


SPOT_ONLY = term({"key": "kind", "operator": "In", "values": ["spot"]})
OTHER = term({"key": "zone", "operator": "In", "values": ["a"]})


@pytest.mark.parametrize(
    ("flavor", "spec", "fits"),
    [
        ("plain", {}, True),
        ("plain", {"nodeSelector": {"kind": "spot"}}, False),
        ("plain", {"nodeSelector": {"kind": "plain", "zone": "a"}}, True),
        ("plain", required(SPOT_ONLY), False),
        ("plain", required(SPOT_ONLY, OTHER), True),
        ("plain", required(OTHER), True),
        ("spot", {}, False),
        ("spot", TOLERANT, True),
        ("spot", {**TOLERANT, **required(SPOT_ONLY)}, True),
        ("soft", {}, True),
        ("open", {}, True),
    ],
)
def test_nodes_of_a_flavor_must_suit_the_pods(flavor: str, spec: JSON, *, fits: bool) -> None:
    groups = [group(("cpu",), **{flavor: ("4",)})]
    if fits:
        assert assigned(pods(spec=spec, cpu="1"), groups=groups).flavors == ({"cpu": flavor},)
    else:
        assert unfit(pods(spec=spec, cpu="1"), groups=groups).reason == "NoMatchingFlavor"


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", "1.5", "1500m"),
        ("cpu", "0", "0"),
        ("memory", "1073741824", "1Gi"),
        ("memory", "1000", "1k"),
        ("hugepages-2Mi", "4194304", "4Mi"),
        ("example.com/gpu", "1024", "1024"),
    ],
)
def test_quantities_are_written_as_kueue_writes_them(resource: str, amount: str, text: str) -> None:
    assert quantity(resource, Decimal(amount)) == text
