"""What a Pod asks of RMD: the operator's samples, what qualifies, and what is said of what does not."""

from __future__ import annotations

from typing import Any

import pytest

from app.rmd.model import L3_CACHE_WAYS
from app.rmd.pods import read_pod, workload_name, workload_of
from tests.support.rmd_reviews import container, pod


@pytest.mark.parametrize(
    ("annotations", "spec"),
    [
        ({}, {"rdt": {"cache": {"max": 2, "min": 2}}}),
        ({"c1_cache_min": "1"}, {"rdt": {"cache": {"max": 2, "min": 1}}}),
        ({"c1_mba_percentage": "50"}, {"rdt": {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 50}}}),
        ({"c1_mba_percentage": "0" * 14 + "50"}, {"rdt": {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 50}}}),
        ({"c1_mba_mbps": "5000"}, {"rdt": {"cache": {"max": 2, "min": 2}, "mba": {"mbps": 5000}}}),
        (
            {"c1_pstate_ratio": "1.5", "c1_pstate_monitoring": "on"},
            {
                "rdt": {"cache": {"max": 2, "min": 2}},
                "plugins": {"pstate": {"ratio": "1.5", "monitoring": "on"}},
            },
        ),
    ],
)
def test_annotations_of_a_container(annotations: dict[str, str], spec: dict[str, Any]) -> None:
    asks = read_pod(pod(container(), **annotations))
    (one,) = asks.containers
    assert (one.spec, one.problems, one.warnings, asks.warnings) == (spec, (), (), ())


def test_a_policy_wins_and_says_so() -> None:
    (one,) = read_pod(pod(container(), c1_policy="gold")).containers
    assert (one.spec["policy"], one.qualifies) == ("gold", True)
    assert one.warnings == ("container c1: policy 'gold' wins and has its own cache ways",)


def test_names_are_matched_whole() -> None:
    """The operator took the annotations of nginx10 for those of nginx1 as well."""
    asks = read_pod(pod(container("nginx1"), container("nginx10"), nginx10_policy="gold"))
    assert ["policy" in one.spec for one in asks.containers] == [False, True]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (pod(container(cpu="500m")), "spec.containers[0].resources.limits[cpu]: want whole CPUs"),
        (pod(container(cpu="1500m")), "spec.containers[0].resources.limits[cpu]: want whole CPUs"),
        (pod(container(), {"name": "other", "image": "i"}), "spec: without the quality of service Guaranteed"),
        (pod(container(ways="0")), f"spec.containers[0].resources.limits[{L3_CACHE_WAYS}]: want 1 or more ways"),
        (pod(container(ways="-2")), f"spec.containers[0].resources.limits[{L3_CACHE_WAYS}]: '-2' is not a whole"),
        (pod(container(ways="2.5")), f"spec.containers[0].resources.limits[{L3_CACHE_WAYS}]: '2.5' is not a whole"),
        (pod(container("a", ways=None), init=(container(),)), "spec.initContainers[0]: kubelet does not tell"),
        (pod(container(), c1_mba_percentage="b"), "metadata.annotations[c1_mba_percentage]: want a whole number"),
        (pod(container(), c1_mba_percentage="101"), "metadata.annotations[c1_mba_percentage]: want 1 to 100"),
        (pod(container(), c1_mba_percentage="9" * 5000), "metadata.annotations[c1_mba_percentage]: want 1 to 100"),
        (pod(container(), c1_cache_min="3"), "metadata.annotations[c1_cache_min]: want at most max, 2, got 3"),
        (pod(container(), c1_pstate_ratio="fast"), "metadata.annotations[c1_pstate_ratio]: want a positive number"),
        (pod(container(), c1_pstate_monitoring="yes"), "metadata.annotations[c1_pstate_monitoring]: want on or off"),
        (
            pod(container(), c1_mba_percentage="50", c1_mba_mbps="5"),
            "container c1: percentage and mbps exclude each other",
        ),
        (
            pod(container(), c1_mba_percentage="50", c1_cache_min="1"),
            "container c1: wants guaranteed cache",
        ),
    ],
)
def test_what_never_gets_a_reservation(given: dict[str, Any], problem: str) -> None:
    (one,) = read_pod(given).containers
    assert not one.qualifies
    assert [line for line in one.problems if line.startswith(problem)], one.problems


def test_a_restartable_init_container_qualifies() -> None:
    (one,) = read_pod(pod(container("a", ways=None), init=(container(restartPolicy="Always"),))).containers
    assert one.qualifies


@pytest.mark.parametrize(
    ("key", "warning"),
    [
        ("c1_polcy", "unknown setting: want one of policy, cache_min"),
        ("c2_policy", "has no effect: c2 asks for no intel.com/l3_cache_ways"),
        ("c9_policy", "there is no container 'c9'"),
    ],
)
def test_annotations_without_effect(key: str, warning: str) -> None:
    asks = read_pod(pod(container(), container("c2", ways=None), **{key: "gold"}))
    (line,) = asks.warnings
    assert line.startswith(f"metadata.annotations[{key}]: {warning}")
    assert "policy" not in asks.containers[0].spec


def test_annotations_of_others_are_not_ours() -> None:
    others = {"example.com/c9_policy": "x", "app_name": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    assert read_pod(pod(container(), **others)).warnings == ()
    assert read_pod(pod(container(ways=None), c9_policy="x")).warnings == ()


def test_the_workload_of_a_container() -> None:
    given = pod(container("container1"), container1_policy="gold")
    (one,) = read_pod(given).containers
    made = workload_of(given, one, frozenset({3, 4, 8}))
    assert made["metadata"]["name"] == "p-rmd-workload-container1"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert (made["spec"]["coreIds"], made["spec"]["nodes"]) == (["3", "4", "8"], ["n1"])
    assert made["spec"]["policy"] == "gold"


def test_a_name_that_is_too_long_ends_with_a_digest() -> None:
    one, other = workload_name("p" * 253, "a"), workload_name("p" * 253, "b")
    assert len(one) == len(other) == 253
    assert one != other


def test_resources_of_the_whole_pod_are_warned_of() -> None:
    """kubelet 1.36 has a feature gate that gives such containers cores of their own."""
    given = pod(container())
    given["spec"]["resources"] = {"limits": {"cpu": "2"}}
    asks = read_pod(given)
    assert [one.qualifies for one in asks.containers] == [True]
    assert any("PodLevelResourceManagers" in one for one in asks.warnings)
    given["spec"]["containers"] = [container(ways=None)]
    assert read_pod(given).warnings == ()


@pytest.mark.timeout(60)
def test_many_containers_with_many_annotations() -> None:
    """As a request of megabytes has them. The names were compared anew for each annotation."""
    names = [f"c{number}" for number in range(100_000)]
    asks = read_pod(pod(*(container(name, ways=None) for name in names), **{f"{name}_policy": "" for name in names}))
    assert len(asks.warnings) == len(names)
