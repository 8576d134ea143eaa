"""RMD by the chart, as a user of kubectl sees it: docs/rmd.md typed, the operator's samples, changes, deletions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.devtools.rmd.machine import Cache, Machine
from tests.e2e import rmd
from tests.e2e.reader import Reader
from tests.e2e.users import Kubectl
from tests.support.rmd_thread import Background, daemons
from tests.support.waiting import Refused, wait_until

JSON = dict[str, Any]
pytestmark = pytest.mark.e2e
PAGE, CLUSTER = "docs/rmd.md", "tenant2"
NODES = ("worker-1", "worker-node-1", "worker-node-2")
MACHINE = Machine(caches=(Cache(0, "0-15"), Cache(1, "16-31", 1, 1)))
Daemons = dict[str, Background]


@pytest.fixture(scope="module")
def served(reader: Reader) -> Iterator[Daemons]:
    """The daemons of a cluster whose admin has done what the page says."""
    with daemons(len(NODES), MACHINE) as found:
        by_node = dict(zip(NODES, found, strict=True))
        for name, daemon in by_node.items():
            rmd.add_node(reader.kubectl(CLUSTER), name, daemon, **{"node.guaranteed.cache.only": "true"})
        reader.follow("Turn it on", CLUSTER, page=PAGE)
        yield by_node


@pytest.fixture
def kubectl(reader: Reader, served: Daemons) -> Iterator[Kubectl]:
    """After each test no daemon holds anything any more."""
    found = reader.kubectl(CLUSTER)
    yield found
    found.run("delete", "rmdworkloads", "--all", "--all-namespaces", "--timeout=120s")
    assert held(served) == {}


def held(served: Daemons) -> dict[str, dict[str, str]]:
    """Cores by uuid, by the nodes whose daemons hold something."""
    found = {node: {one.uuid: ",".join(one.core_ids) for one in daemon.workloads()} for node, daemon in served.items()}
    return {node: rows for node, rows in found.items() if rows}


def ready(kubectl: Kubectl, name: str) -> JSON:
    """The condition Ready, once it is about the spec as it is."""
    obj = kubectl.get("rmdworkload", name)
    status: JSON = obj.get("status") or {}
    (found,) = status.get("conditions") or [{}]
    return found if found.get("observedGeneration") == obj["metadata"]["generation"] else {}


def says(kubectl: Kubectl, name: str, reason: str) -> JSON:
    wait_until(lambda: ready(kubectl, name).get("reason") == reason)
    return ready(kubectl, name)


def change(kubectl: Kubectl, name: str, **spec: Any) -> None:
    kubectl.run("patch", "rmdworkload", name, "--type=merge", "--patch", json.dumps({"spec": spec}))


def test_the_page(reader: Reader, kubectl: Kubectl, served: Daemons) -> None:
    config = wait_until(lambda: kubectl.get("rmdconfig", "rmdconfig").get("status"))
    assert {*NODES} <= {*config["nodes"]}
    assert kubectl.get("daemonset", "rmd")["spec"]["template"]["spec"]["nodeSelector"] == rmd.RDT
    shown = reader.follow("RmdWorkload", CLUSTER, page=PAGE)
    assert shown.splitlines()[1].split() == ["NAME", "READY", "REASON", "AGE"]
    kubectl.run("wait", "--for=condition=Ready", "rmdworkload/guaranteed", "--timeout=120s")
    assert held(served) == {"worker-1": {"default/guaranteed": "0-3,6"}}
    state = kubectl.get("rmdworkload", "guaranteed")["status"]["workloadStates"]["worker-1"]
    assert (state["response"], state["status"]) == ("Success: 201", "Successful")
    assert state["rdt"] == {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 50}}
    rows = wait_until(lambda: kubectl.get("rmdnodestate", "rmd-node-state-worker-1")["status"].get("workloads"))
    assert rows["guaranteed"]["Cos Name"] == state["cosName"]
    wide = kubectl.run("get", "rmdworkloads", "guaranteed", "-o", "wide").splitlines()
    assert wide[0].split() == ["NAME", "READY", "REASON", "AGE", "NODES", "CORES", "MESSAGE"]
    assert '["worker-1"]' in wide[1]
    assert '["0-3","6"]' in wide[1]
    reader.find_nothing_wrong(CLUSTER)
    shown = kubectl.run("get", "rmdnodestates", "rmd-node-state-worker-1").splitlines()
    assert [line.split()[:4] for line in shown] == [
        ["NAME", "NODE", "CONNECTED", "RESERVATIONS"],
        ["rmd-node-state-worker-1", "worker-1", "True", "1"],
    ]


def complaints(reader: Reader) -> list[JSON]:
    """What the doctor of the whole cluster says that is worse than information."""
    said = reader.type("berth doctor --berth-namespace berth-system --output json || true", CLUSTER)
    found = json.loads(said)["findings"]
    assert {"rmd", "permissions", "deployments", "leases"} <= {one["check"] for one in found}
    return [one for one in found if one["severity"] in ("warning", "error")]


def test_the_doctor_knows_node_agents_and_daemons(reader: Reader, kubectl: Kubectl) -> None:
    """With all of it at work, without a permission of the node agents, and with an RmdWorkload for a node that is gone."""
    assert complaints(reader) == []
    (binding,) = [one for one in kubectl.run("get", "clusterrolebindings", "-o", "name").split() if "rmd-node" in one]
    kubectl.run("delete", binding)
    (lacking,) = complaints(reader)
    assert (lacking["code"], lacking["subject"]) == ("BERTH0801", "ServiceAccount default/berth-rmd-node")
    reader.type(lacking["command"], CLUSTER)
    rmd.create(kubectl, rmd.rmd_workload("astray", "gone"))
    says(kubectl, "astray", "NotReserved")
    (astray,) = complaints(reader)
    assert astray["message"] == "not reserved on node gone: Fail: there is no node gone"
    assert astray["command"] == "kubectl --namespace default edit rmdworkloads.intel.com astray"
    reader.type(f"EDITOR='sed -i s/gone/worker-1/' {astray['command']}", CLUSTER)
    says(kubectl, "astray", "Reserved")
    assert complaints(reader) == []


OLD = {"rdt": None}
ALL = {"allCores": True, "coreIds": None}
BOTH = ("worker-node-1", "worker-node-2")
MBA = {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 50}}
SAMPLES: dict[str, tuple[tuple[str, ...], JSON, str]] = {
    "guaranteed-cache": (BOTH, {"coreIds": ["0-3", "6", "8"]}, "0-3,6,8"),
    "guaranteed-cache-mba": (BOTH, {"coreIds": ["0-3"], "rdt": MBA}, "0-3"),
    "besteffort-cache": (BOTH, {"coreIds": ["0-3"], "cache": {"max": 2, "min": 1}, **OLD}, "0-3"),
    "guaranteed-cache-pstate": (
        BOTH,
        {"coreIds": ["4-7"], "cache": {"max": 2, "min": 2}, **OLD}
        | {"plugins": {"pstate": {"ratio": "3.0", "monitoring": "on"}}},
        "4-7",
    ),
    "of-v0.1": (
        BOTH,
        {"coreIds": ["4-7"], "cache": {"max": 2, "min": 2}, "pstate": {"ratio": "3.0", "monitoring": "on"}, **OLD},
        "4-7",
    ),
    "all-cores": (BOTH, ALL, "0-31"),
    "allocatable": (
        NODES,
        {**ALL, "reservedCoreIds": ["0-3"]} | {"nodeSelector": {"node.guaranteed.cache.only": "true"}},
        "4-31",
    ),
    "nodeselector": (NODES, {**ALL, "nodeSelector": rmd.RDT}, "0-31"),
}
"""The operator's samples: nodes that have the reservation, what the spec has, and the cores."""


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_of_the_operator(kubectl: Kubectl, served: Daemons, name: str) -> None:
    nodes, spec, cores = SAMPLES[name]
    body = rmd.rmd_workload(name, *(() if "nodeSelector" in spec else nodes), **spec)
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    kubectl.run("apply", "--validate=strict", "-f", "-", stdin=json.dumps(body))
    kubectl.run("wait", "--for=condition=Ready", f"rmdworkload/{name}", "--timeout=120s")
    assert held(served) == {node: {f"default/{name}": cores} for node in nodes}
    (record,) = served[nodes[0]].workloads()
    old = spec.get("cache", {"max": 2, "min": 2})
    assert (record.max, record.min) == (old["max"], old["min"])
    pstate = {"ratio": 3.0, "monitoring": "on"} if {"plugins", "pstate"} & spec.keys() else None
    assert record.plugins.get("pstate") == pstate
    assert record.percentage == (50 if spec.get("rdt") == MBA else None)


@pytest.mark.parametrize("kind", ["RmdWorkload", "RmdNodeState", "RmdConfig"])
def test_the_generated_examples_are_refused(kubectl: Kubectl, kind: str) -> None:
    body = {"apiVersion": "intel.com/v1alpha1", "kind": kind, "metadata": {"name": "example"}, "spec": {"size": 3}}
    with pytest.raises(Refused, match=r'unknown field "spec\.size"'):
        kubectl.run("apply", "--validate=strict", "-f", "-", stdin=json.dumps(body))


def test_changes_reach_the_daemons(kubectl: Kubectl, served: Daemons) -> None:
    changed = {"default/a": "4,6-7"}
    kubectl.create(rmd.rmd_workload("a", *BOTH))
    says(kubectl, "a", "Reserved")
    change(kubectl, "a", coreIds=["4", "6-7"], nodes=["worker-node-2", "worker-1"])
    says(kubectl, "a", "Reserved")
    wait_until(lambda: held(served) == {"worker-1": changed, "worker-node-2": changed})
    change(kubectl, "a", policy="gold")
    wait_until(lambda: [one.policy for node in served.values() for one in node.workloads()] == ["gold", "gold"])
    says(kubectl, "a", "Reserved")
    change(kubectl, "a", coreIds=["7-6"])
    assert "spec.coreIds[0]: want the lower core first" in says(kubectl, "a", "InvalidSpec")["message"]
    assert held(served)["worker-1"] == changed


def test_a_refusal_is_said_until_there_is_room(kubectl: Kubectl, served: Daemons) -> None:
    kubectl.create(rmd.rmd_workload("first", "worker-1"))
    says(kubectl, "first", "Reserved")
    kubectl.create(rmd.rmd_workload("second", "worker-1", coreIds=["1-2"]))
    assert "CPU list [1] has been assigned" in says(kubectl, "second", "NotReserved")["message"]
    events = ("events", "--field-selector=reason=NotReserved,involvedObject.name=second", "-o", "name")
    wait_until(lambda: kubectl.run("get", *events))
    kubectl.run("delete", "rmdworkload", "first", "--timeout=120s")
    says(kubectl, "second", "Reserved")
    assert held(served) == {"worker-1": {"default/second": "1-2"}}


def test_a_node_that_loses_its_label(kubectl: Kubectl, served: Daemons) -> None:
    (label,) = rmd.RDT
    kubectl.create(rmd.rmd_workload("a", coreIds=["5"], nodeSelector={"node.guaranteed.cache.only": "true"}))
    wait_until(lambda: held(served).keys() == {*NODES})
    kubectl.run("label", "node", "worker-1", f"{label}-")
    try:
        wait_until(lambda: held(served).keys() == {*BOTH})
        wait_until(lambda: "rmd-node-state-worker-1" not in kubectl.run("get", "rmdnodestates", "-o", "name"))
        wait_until(lambda: "worker-1" not in kubectl.get("rmdconfig", "rmdconfig")["status"]["nodes"])
    finally:
        kubectl.run("label", "node", "worker-1", f"{label}=true")
    wait_until(lambda: held(served).keys() == {*NODES})
    wait_until(lambda: kubectl.get("rmdnodestate", "rmd-node-state-worker-1"))
