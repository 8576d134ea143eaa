"""docs/migrate-from-rmd-operator.md, typed: daemons keep what the operator has reserved, and nothing of it is left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.devtools.rmd.model import Workload
from tests.e2e import rmd
from tests.e2e.reader import Reader
from tests.e2e.users import Kubectl
from tests.support.rmd_thread import Background, daemons
from tests.support.waiting import wait_until

JSON = dict[str, Any]
pytestmark = pytest.mark.e2e
PAGE, CLUSTER, NODE = "docs/migrate-from-rmd-operator.md", "tenant1", "worker-1"


def the_operator(kubectl: Kubectl, daemon: Background) -> None:
    """Its objects, a reservation that a status names, and one in another namespace, which no status names."""
    rmd.create(kubectl, *rmd.definitions_of_the_operator())
    kubectl.run("wait", "--for=condition=Established", "customresourcedefinition", "--all", "--timeout=60s")
    rmd.add_node(kubectl, NODE, daemon)
    rmd.create(kubectl, *rmd.what_the_operator_installs())
    config = kubectl.get("rmdconfig", "rmdconfig")
    rmd.create(kubectl, *rmd.what_the_operator_makes(config["metadata"]["uid"], NODE))
    kubectl.run("create", "namespace", "team-a")
    cores = {"batch": "0-1", "latency": "2-3"}
    for name, namespace in (("batch", "default"), ("latency", "team-a")):
        rmd.create(kubectl, rmd.rmd_workload(name, NODE, namespace=namespace, coreIds=[cores[name]]))
        daemon.add(Workload(uuid=name, core_ids=(cores[name],), max=2, min=2))
    made = {"response": "Success: 201", "id": "1", "cosName": "COS2", "status": "Successful", "coreIds": ["0-1"]}
    rmd.say(kubectl, "rmdworkload", "batch", {"workloadStates": {NODE: made}})


def reason(kubectl: Kubectl, name: str, namespace: str) -> str:
    conditions = (kubectl.get("rmdworkload", name, namespace).get("status") or {}).get("conditions") or [{}]
    return str(conditions[0].get("reason"))


def images(kubectl: Kubectl) -> set[str]:
    """Of all DaemonSets in namespace default."""
    found = kubectl.run("get", "daemonsets", "-n", "default", "-o", "jsonpath={..image}")
    return set(found.split())


def test_the_operator_is_replaced(reader: Reader) -> None:
    kubectl = reader.kubectl(CLUSTER)
    with daemons(1) as (daemon,):
        the_operator(kubectl, daemon)
        before = daemon.workloads()
        assert "team-a/latency\t\n" in reader.follow("Look first", CLUSTER, page=PAGE)
        reader.follow("Stop the operator", CLUSTER, page=PAGE)
        assert images(kubectl) == set()
        assert kubectl.get("pod", f"rmd-{NODE}")["metadata"]["name"] == f"rmd-{NODE}"
        reader.follow("Take over", CLUSTER, page=PAGE)
        wait_until(lambda: "rmd:latest" in images(kubectl))
        assert not {"intel-rmd-deviceplugin", f"{rmd.AGENT}:latest"} & images(kubectl)
        uid = kubectl.get("node", NODE)["metadata"]["uid"]
        state = f"rmd-node-state-{NODE}"
        wait_until(lambda: kubectl.get("rmdnodestate", state)["spec"]["nodeUid"] == uid)
        wait_until(lambda: reason(kubectl, "latency", "team-a") == "NotReserved")
        wait_until(lambda: "latency" in kubectl.get("rmdnodestate", state)["status"]["workloads"])
        printed = reader.follow("Reservations that no status names", CLUSTER, page=PAGE)
        assert printed.startswith("2")
        assert daemon.workloads() == before
        reader.follow("Remove the operator", CLUSTER, page=PAGE)
        left = "deployments,configmaps,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings"
        assert "intel-rmd" not in kubectl.run("get", left, "-n", "default", "-o", "name")
        reader.find_nothing_wrong(CLUSTER)
        go_back(reader, kubectl, daemon)


def go_back(reader: Reader, kubectl: Kubectl, daemon: Background) -> None:
    """To a cluster in which nothing of Berth holds up the operator."""
    way = {"cache": {"max": 1, "min": 1}}
    made = rmd.rmd_workload("p-rmd-workload-c", NODE, coreIds=["5"], rdt=way)
    made["metadata"]["labels"] = {"berth.dev/rmd-node": NODE}
    rmd.create(kubectl, made, rmd.rmd_workload("late", NODE, coreIds=["6", "7"], rdt=way))
    wait_until(lambda: {"default/late", "default/p-rmd-workload-c"} <= {one.uuid for one in daemon.workloads()})
    names = (("batch", "default"), ("late", "default"), ("latency", "team-a"))
    specs = {name: kubectl.get("rmdworkload", name, namespace)["spec"] for name, namespace in names}
    reader.follow("Go back", CLUSTER, page=PAGE)
    assert daemon.workloads() == []
    listed = ("get", "rmdworkloads", "--all-namespaces", "-o", "name")
    assert kubectl.run(*listed) == ""
    # All of the group that the server has: the sandbox has no policies.
    served = kubectl.run("api-resources", "--api-group=admissionregistration.k8s.io", "-o", "name").split()
    assert {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} <= {one.split(".")[0] for one in served}
    assert "berth" not in kubectl.run("get", ",".join(served), "-o", "name")
    rmd.create(kubectl, *(one for one in rmd.what_the_operator_installs() if one["kind"] != "RmdConfig"))
    printed = reader.follow("Let the operator reserve again", CLUSTER, page=PAGE)
    assert sorted(line.split()[1] for line in printed.splitlines() if line[:7] in ("default", "team-a ")) == sorted(
        specs
    )
    for name, namespace in names:
        found = kubectl.get("rmdworkload", name, namespace)
        assert found["spec"] == specs[name]
        assert "finalizers" not in found["metadata"]
        # What the operator writes fits into the definition that stays.
        state = {"response": "Success: 201", "id": "1", "coreIds": None, "rdt": {"mba": {"percentage": 50}}}
        patch = json.dumps({"status": {"workloadStates": {NODE: state}}})
        written = ("patch", "rmdworkload", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
        kubectl.run(*written)
        kubectl.run("delete", "rmdworkload", name, "-n", namespace, "--timeout=60s")
    assert kubectl.run(*listed) == ""
