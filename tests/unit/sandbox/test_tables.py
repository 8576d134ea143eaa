from __future__ import annotations

from typing import Any

import pytest

from app.devtools.sandbox.printing.durations import human_duration, parse_time
from app.devtools.sandbox.printing.tables import render_table

NOW = 1_800_000_000.0
CREATED = "2027-01-15T07:58:00Z"  # two minutes before NOW


def table(obj: dict[str, Any], kind: str, columns: list[dict[str, Any]] | None = None) -> tuple[list[str], list[Any]]:
    obj = {**obj, "metadata": {"name": "n", "creationTimestamp": CREATED, **obj.get("metadata", {})}}
    rendered = render_table([obj], kind, columns, now=NOW, include_object="Metadata")
    return [c["name"] for c in rendered["columnDefinitions"]], rendered["rows"][0]["cells"]


def test_the_clock_of_these_tests() -> None:
    assert parse_time(CREATED) == NOW - 120


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (10799, "179m"), (10800, "3h"),
     (3 * 3600 + 300, "3h5m"), (27 * 3600, "27h"), (48 * 3600, "2d"), (50 * 3600, "2d2h"), (9 * 86400, "9d"),
     (400 * 86400, "400d"), (731 * 86400, "2y1d"), (3000 * 86400, "8y")],
)  # fmt: skip
def test_durations_are_kubectls(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def status(name: str = "c", *, ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


def pod_cells(pod: dict[str, Any]) -> list[Any]:
    pod.setdefault("spec", {"containers": [{"name": "c"}]})
    return table(pod, "Pod")[1]


def test_pod_columns_and_a_running_pod() -> None:
    pod = {
        "spec": {
            "containers": [{"name": "c"}, {"name": "d"}],
            "nodeName": "node-1",
            "readinessGates": [{"conditionType": "g"}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "containerStatuses": [status(ready=True, running={}), status("d", running={})],
        },
    }
    names, cells = table(pod, "Pod")
    assert names == ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"]
    assert cells == ["n", "1/2", "Running", "0", "2m", "10.0.0.1", "node-1", "<none>", "0/1"]


@pytest.mark.parametrize(
    ("pod", "word"),
    [
        ({"status": {"phase": "Pending"}}, "Pending"),
        ({"status": {"phase": "Running"}, "metadata": {"deletionTimestamp": CREATED}}, "Terminating"),
        ({"status": {"phase": "Succeeded", "containerStatuses": [status(terminated={"reason": "Completed", "exitCode": 0})]}}, "Completed"),
        ({"status": {"phase": "Failed", "containerStatuses": [status(terminated={"exitCode": 3})]}}, "ExitCode:3"),
        ({"status": {"phase": "Running", "containerStatuses": [status(waiting={"reason": "CrashLoopBackOff"})]}}, "CrashLoopBackOff"),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted"),
        ({"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}, "status": {"phase": "Pending", "initContainerStatuses": [status("i", running={})]}}, "Init:0/1"),
        ({"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}, "status": {"phase": "Pending", "initContainerStatuses": [status("i", terminated={"reason": "Error", "exitCode": 1})]}}, "Init:Error"),
        ({"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}}, "SchedulingGated"),
    ],
)  # fmt: skip
def test_pod_status_is_the_most_telling_word(pod: dict[str, Any], word: str) -> None:
    assert pod_cells(pod)[2] == word


def test_restarts_tell_when_the_last_one_was() -> None:
    last = {**status(restarts=3, running={}), "lastState": {"terminated": {"finishedAt": "2027-01-15T07:59:00Z"}}}
    assert pod_cells({"status": {"phase": "Running", "containerStatuses": [last]}})[3] == "3 (60s ago)"


def test_node_columns() -> None:
    node = {
        "metadata": {"labels": {"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {
                "kubeletVersion": "v1.36.0",
                "osImage": "Linux",
                "kernelVersion": "6.1",
                "architecture": "arm64",
            },
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }
    names, cells = table(node, "Node")
    assert names[:5] == ["Name", "Status", "Roles", "Age", "Version"]
    assert cells == [
        "n",
        "Ready,SchedulingDisabled",
        "control-plane,worker",
        "2m",
        "v1.36.0",
        "10.0.0.1",
        "<none>",
        "Linux",
        "6.1 (arm64)",
        "<unknown>",
    ]
    assert table({}, "Node")[1][1:3] == ["Unknown", "<none>"]


@pytest.mark.parametrize(
    ("kind", "obj", "cells"),
    [
        ("Namespace", {"status": {"phase": "Active"}}, ["n", "Active", "2m"]),
        ("ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": "2"}}, ["n", 2, "2m"]),
        ("Secret", {"type": "Opaque", "data": {"a": "1"}}, ["n", "Opaque", 1, "2m"]),
        ("ServiceAccount", {}, ["n", "2m"]),
        ("Lease", {"spec": {"holderIdentity": "me"}}, ["n", "me", "2m"]),
        ("CustomResourceDefinition", {}, ["n", "", "", CREATED, "", "", "", False]),
        ("MutatingWebhookConfiguration", {"webhooks": [{}, {}]}, ["n", 2, "2m"]),
        ("Anything", {}, ["n", "2m"]),
        ("RoleBinding", {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "User", "name": "w"}, {"kind": "ServiceAccount", "name": "s", "namespace": "ns"}]},
         ["n", "Role/r", "2m", "u, w", "", "ns/s"]),
        ("Service", {"spec": {"type": "ClusterIP", "clusterIP": "10.96.0.1", "ports": [{"port": 443, "protocol": "TCP"}], "selector": {"b": "2", "a": "1"}}},
         ["n", "ClusterIP", "10.96.0.1", "<none>", "443/TCP", "2m", "a=1,b=2"]),
        ("Deployment", {"spec": {"replicas": 2, "selector": {"matchLabels": {"a": "1"}}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}, "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}},
         ["n", "1/2", 2, 1, "2m", "c", "i", "a=1"]),
        ("Event", {"lastTimestamp": CREATED, "type": "Normal", "reason": "R", "message": "m\n", "involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "c"}, "count": 1},
         ["2m", "Normal", "R", "pod/p", "", "c", "m", "<unknown>", 1, "n"]),
    ],
)  # fmt: skip
def test_rows_of_built_in_kinds(kind: str, obj: dict[str, Any], cells: list[Any]) -> None:
    assert table(obj, kind)[1] == cells


def test_printer_columns_of_a_crd() -> None:
    columns = [
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
        {"name": "Count", "type": "integer", "jsonPath": ".spec.count"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Res", "type": "string", "jsonPath": r".metadata.annotations.example\.com/res", "priority": 1},
        {"name": "Seen", "type": "date", "jsonPath": ".status.seen"},
        {"name": "All", "type": "string", "jsonPath": ".spec.names[*]"},
        {"name": "None", "type": "integer", "jsonPath": ".spec.mode"},
    ]
    obj = {
        "metadata": {"annotations": {"example.com/res": "r"}},
        "spec": {"mode": "m", "count": 3, "names": ["a", "b"]},
        "status": {
            "seen": CREATED,
            "conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}],
        },
    }
    names, cells = table(obj, "X", columns)
    assert names == ["Name", "Mode", "Count", "Ready", "Res", "Seen", "All", "None"]
    assert cells == ["n", "m", 3, "True", "r", "2m", "a b", None]


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Pod")]
)
def test_rows_carry_as_much_of_the_object_as_was_asked_for(include: str, kind: str | None) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
    row = render_table([pod], "Pod", None, now=NOW, include_object=include)["rows"][0]
    assert row.get("object", {}).get("kind") == kind
