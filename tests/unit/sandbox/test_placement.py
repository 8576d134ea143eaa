from __future__ import annotations

from typing import Any

import pytest

from app.devtools.sandbox.standins.placement import place
from app.kinds.requests import pod_requests

JSON = dict[str, Any]


def node(
    name: str, *, labels: JSON | None = None, taints: list[JSON] | None = None, ready: str = "True", **allocatable: str
) -> JSON:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", **{k.replace("_", "."): v for k, v in allocatable.items()}}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": taints or []},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": ready}]},
    }


def pod(requests: JSON | None = None, **spec: Any) -> JSON:
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests or {}}}], **spec},
    }


def on(name: str, requests: JSON | None = None, phase: str = "Running") -> JSON:
    return {**pod(requests, nodeName=name), "status": {"phase": phase}}


def required(*terms: JSON) -> JSON:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> JSON:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


A = node("a", labels={"disk": "ssd", "gen": "7"})
B = node("b", labels={"disk": "hdd"})


def test_the_emptier_node_is_chosen_then_the_first_name() -> None:
    assert place(pod(), [B, A], []).node == "a"
    assert place(pod(), [A, B], [on("a")]).node == "b"


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        ({"nodeSelector": {"disk": "hdd"}}, "b"),
        ({"affinity": required(expression("disk", "In", "hdd", "x"))}, "b"),
        ({"affinity": required(expression("disk", "NotIn", "ssd"))}, "b"),
        ({"affinity": required(expression("gen", "Exists"))}, "a"),
        ({"affinity": required(expression("gen", "DoesNotExist"))}, "b"),
        ({"affinity": required(expression("gen", "Gt", "6"))}, "a"),
        ({"affinity": required(expression("gen", "Lt", "7"))}, ""),
        ({"affinity": required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]})}, "b"),
        ({"affinity": required(expression("disk", "In", "none"), expression("disk", "In", "hdd"))}, "b"),
        ({"affinity": required({})}, ""),
        ({"affinity": required(expression("disk", "In", "hdd")), "nodeSelector": {"gen": "7"}}, ""),
        ({"nodeName": "b"}, "b"),
    ],
)
def test_selectors_and_required_affinity(spec: JSON, chosen: str) -> None:
    assert place(pod(**spec), [A, B], []).node == chosen


TAINT = {"key": "dpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "dpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "dpu", "value": "yes"}, True),
        ({"key": "dpu", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "dpu", "value": "no"}, False),
        ({"key": "dpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_taints_need_a_toleration(toleration: JSON, *, fits: bool) -> None:
    tainted = node("t", taints=[TAINT])
    assert bool(place(pod(tolerations=[toleration]), [tainted], []).node) is fits


def test_a_soft_taint_hinders_nobody_and_an_unready_or_cordoned_node_everybody() -> None:
    assert place(pod(), [node("n", taints=[{"key": "k", "effect": "PreferNoSchedule"}])], []).node == "n"
    assert place(pod(), [node("n", ready="False")], []).node == ""
    cordoned = node("n")
    cordoned["spec"]["unschedulable"] = True
    assert "1 node(s) were unschedulable." in place(pod(), [cordoned], []).message


def test_extended_resources_are_counted_until_their_pods_end() -> None:
    device = node("n", **{"example_com/foo": "4"})
    two = {"example.com/foo": "2"}
    assert place(pod(two), [device], [on("n", two)]).node == "n"
    assert place(pod(two), [device], [on("n", two), on("n", {"example.com/foo": "1"})]).node == ""
    assert place(pod(two), [device], [on("n", two), on("n", two, "Succeeded")]).node == "n"


def test_the_message_is_the_schedulers() -> None:
    nodes = [node("a", taints=[TAINT]), node("b", labels={"x": "y"}), node("c", labels={"x": "y"}, cpu="1", pods="0")]
    message = place(pod({"cpu": "8"}, nodeSelector={"x": "y"}), [*nodes, node("d")], []).message
    assert message == (
        "0/4 nodes are available: 1 Too many pods, 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint(s), 2 Insufficient cpu. no new claims to deallocate, preemption: 0/4 nodes are "
        "available: 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )
    assert place(pod(), [], []).message == "no nodes available to schedule pods"


def test_requests_are_the_larger_of_init_steps_and_containers_with_overhead() -> None:
    def container(cpu: str, **more: Any) -> JSON:
        return {"name": "x", "resources": {"limits": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("1"), container("500m")],
        "initContainers": [container("1", restartPolicy="Always"), container("3")],
        "overhead": {"cpu": "100m"},
    }
    assert str(pod_requests({"spec": spec})["cpu"].normalize()) == "4.1"
    spec["initContainers"] = [container("1")]
    assert str(pod_requests({"spec": spec})["cpu"].normalize()) == "1.6"
