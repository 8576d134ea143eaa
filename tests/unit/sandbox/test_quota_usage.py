"""What one object counts for in quotas."""

from __future__ import annotations

from typing import Any

import pytest

from app.devtools.sandbox.kinds.quotausage import PODS, SERVICES, bounded_resource, usage

JSON = dict[str, Any]
COUNTS = {"pods": "1", "count/pods": "1"}


def container(requests: JSON, limits: JSON | None = None, **fields: Any) -> JSON:
    return {"name": "c", "resources": {"requests": requests, "limits": limits or {}}, **fields}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container({})]}, {}),
        (
            {"containers": [container({"cpu": "1"}, {"memory": "1Gi"}), container({"cpu": "500m"}, {"memory": "1M"})]},
            {
                "cpu": "1500m",
                "requests.cpu": "1500m",
                "memory": "1074741824",
                "requests.memory": "1074741824",
                "limits.memory": "1074741824",
            },
        ),
        (
            {"containers": [container({"cpu": "1"}, {"cpu": "2"})], "initContainers": [container({"cpu": "3"})]},
            {"cpu": "3", "requests.cpu": "3", "limits.cpu": "2"},
        ),
        (
            {
                "containers": [container({"hugepages-2Mi": "4Mi", "example.com/foo": "2"})],
                "overhead": {"cpu": "250m"},
            },
            {
                "hugepages-2Mi": "4Mi",
                "requests.hugepages-2Mi": "4Mi",
                "requests.example.com/foo": "2",
                "cpu": "250m",
                "requests.cpu": "250m",
            },
        ),
        (
            {"containers": [container({})], "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}},
            {"cpu": "2", "requests.cpu": "2", "limits.cpu": "3"},
        ),
    ],
)
def test_a_pod_counts_for_what_it_requests(spec: JSON, expected: JSON) -> None:
    assert usage(PODS, {"spec": spec}, ["cpu"]) == COUNTS | expected


def test_a_pod_that_has_ended_is_only_an_object() -> None:
    pod = {"spec": {"containers": [container({"cpu": "1"})]}, "status": {"phase": "Failed"}}
    assert usage(PODS, pod, ["cpu"]) == {"count/pods": "1"}


def test_a_balancer_may_go_without_node_ports() -> None:
    spec = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": [{"nodePort": 30000}, {}]}
    found = usage(SERVICES, {"spec": spec}, [])
    assert (found["services.nodeports"], found["services.loadbalancers"]) == ("1", "1")


@pytest.mark.parametrize(
    ("name", "bounded"),
    [
        ("cpu", ("", "pods")),
        ("limits.memory", ("", "pods")),
        ("requests.example.com/foo", ("", "pods")),
        ("limits.example.com/foo", None),
        ("example.com/foo", None),
        ("requests.storage", ("", "persistentvolumeclaims")),
        ("services.nodeports", ("", "services")),
        ("count/leases.coordination.k8s.io", ("coordination.k8s.io", "leases")),
        ("secrets", ("", "secrets")),
        ("dogs", None),
    ],
)
def test_what_a_name_bounds(name: str, bounded: tuple[str, str] | None) -> None:
    assert bounded_resource(name) == bounded
