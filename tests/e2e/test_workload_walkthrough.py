"""The walk-through of the Workload API, step by step as its overview page has it: kubectl on three clusters, and gRPC.

The steps depend on each other, so they are one test; each is a function that says what the page expects.
"""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as pb
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2_grpc as services
from tests.e2e.users import Kubectl
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.e2e
EXAMPLES = ROOT / "examples" / "workload-api"
RULES = "workloadrules.workload.universe.nvidia.com"
UVS_PODS = "uvspods.resource.universe.nvidia.com"
WORKLOADS = "workloads.workload.infra.universe.nvidia.com"
NAME_OF_RULE = r"{.metadata.annotations.workloadrule\.workload\.universe\.nvidia\.com/name}"
PODS_BY_RULE = '{range .items[*]}{.metadata.name}{"\\t"}' + NAME_OF_RULE + '{"\\n"}{end}'
PODS_BY_CONTAINER = '{range .items[*]}{.metadata.name}{"\\t"}{.spec.containers[0].name}{"\\n"}{end}'


class Walk:
    """What the steps share: a kubectl for each cluster, and the cloud admin's service."""

    def __init__(self, sandbox: Path) -> None:
        self.icp, self.tenant1, self.tenant2 = (
            Kubectl(sandbox / f"{name}.kubeconfig") for name in ("icp", "tenant1", "tenant2")
        )
        admin = sandbox / "admin"
        credentials = grpc.ssl_channel_credentials(
            *((admin / name).read_bytes() for name in ("ca.crt", "admin.key", "admin.crt"))
        )
        options = [("grpc.ssl_target_name_override", "api-gateway.local")]
        self.channel = grpc.secure_channel((sandbox / "gateway.addr").read_text().strip(), credentials, options)
        self.admin_rules = services.AdminWorkloadRuleServiceStub(self.channel)

    def uid(self, tenant: Kubectl, name: str) -> str:
        return tenant.run("get", "pod", name, "-o", "jsonpath={.metadata.uid}")

    def workloads(self) -> list[str]:
        """Of Pods that users have made: the agents send those of Berth's roles as well."""
        lines = self.icp.run("get", WORKLOADS, "-A", "--no-headers").splitlines()
        return [line for line in lines if line.split()[2] != "berth-system"]

    def pods(self, namespace: str) -> dict[str, tuple[str, str]]:
        """Name to (STATUS, READY) as `kubectl get po` prints them."""
        lines = self.icp.run("get", "po", "-n", namespace, "--no-headers").splitlines()
        return {line.split()[0]: (line.split()[2], line.split()[1]) for line in lines}

    def run_alone(self, namespace: str, *names: str) -> None:
        """Exactly these Pods, all of them running, with READY 1/1."""
        wait_until(lambda: self.pods(namespace) == dict.fromkeys(names, ("Running", "1/1")))

    def companion(self, name: str, namespace: str = "tenant-tenant1") -> Any:
        return self.icp.get("pod", name, namespace)


if shutil.which("kubectl"):

    def test_the_walk_through(sandbox: Path) -> None:
        walk = Walk(sandbox)
        with walk.channel:
            the_infrastructure(walk)
            a_uvs_pod(walk)
            pod1, pod2 = the_workloads(walk)
            first = a_rule_for_one_of_them(walk, pod1)
            second = another_template(walk, pod1, first)
            a_label_on_the_workload(walk, pod1, second)
            one_expression_less(walk, pod1, pod2, second)
            the_mirrors(walk, pod1, pod2)
            a_workload_less(walk, pod1, pod2)
            the_rule_is_gone(walk)
            a_rule_without_effect(walk)
            the_admin_rule(walk, pod1)
            the_admin_rule_is_gone(walk)
            walk.tenant1.run("delete", UVS_PODS, "-n", "universe", "tenant1-uvspod1")
            walk.run_alone("tenant-tenant1")
            walk.tenant1.run("delete", "pod", "tenant1-pod1")
            walk.tenant2.run("delete", "pod", "tenant2-pod1")
            wait_until(lambda: not walk.workloads())


def the_infrastructure(walk: Walk) -> None:
    nodes = walk.icp.run("get", "node", "-o", "name").split()
    assert nodes == [f"node/{name}" for name in (*(f"dpu1-host-{x}" for x in "abcd"), "icp-master")]
    namespaces = walk.icp.run("get", "ns", "--no-headers")
    for tenant in ("tenant1", "tenant2"):
        assert any(line.split()[:2] == [f"tenant-{tenant}", "Active"] for line in namespaces.splitlines())


def a_uvs_pod(walk: Walk) -> None:
    told = walk.tenant1.run("apply", "-f", str(EXAMPLES / "tenant1-uvspod1.yaml"))
    assert told == "uvspod.resource.universe.nvidia.com/tenant1-uvspod1 created\n"

    def shown() -> list[list[str]]:
        text = walk.tenant1.run("get", UVS_PODS, "-n", "universe", "tenant1-uvspod1")
        return [line.split() for line in text.splitlines()]

    wait_until(lambda: shown() == [["NAME", "RESULT", "MESSAGE"], ["tenant1-uvspod1", "success"]])
    walk.run_alone("tenant-tenant1", "tenant1-uvspod1")


def the_workloads(walk: Walk) -> tuple[str, str]:
    for tenant, name in (
        (walk.tenant1, "tenant1-pod1"),
        (walk.tenant1, "tenant1-pod2"),
        (walk.tenant2, "tenant2-pod1"),
    ):
        assert tenant.run("apply", "-f", str(EXAMPLES / f"{name}.yaml")) == f"pod/{name} created\n"
    return walk.uid(walk.tenant1, "tenant1-pod1"), walk.uid(walk.tenant1, "tenant1-pod2")


def a_rule_for_one_of_them(walk: Walk, pod1: str) -> Any:
    told = walk.tenant1.run("apply", "-f", str(EXAMPLES / "tenant1-rule1.yaml"))
    assert told == "workloadrule.workload.universe.nvidia.com/tenant1-rule1 created\n"
    name = f"tenant1-rule1-{pod1}"
    walk.run_alone("tenant-tenant1", name, "tenant1-uvspod1")
    assert walk.icp.run("get", "po", "-n", "tenant-tenant2") == "", "No resources found"
    by_rule = walk.icp.run("get", "pods", "-n", "tenant-tenant1", f"-o=jsonpath={PODS_BY_RULE}")
    assert by_rule.splitlines() == [f"{name}\ttenant1-rule1", "tenant1-uvspod1\t"]
    command = ("get", "-n", "tenant-tenant1", WORKLOADS, f"workload-{pod1}", "-o", "jsonpath={.status}")
    status = wait_until(lambda: json.loads(walk.icp.run(*command) or "{}"))
    (rule,) = status["rules"]["tenant"]
    assert rule["id"] == "tenant-tenant1/tenant1-rule1"
    reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "tenant-tenant1"}
    wait_until(lambda: json.loads(walk.icp.run(*command))["rules"]["tenant"][0]["status"]["objRef"] == reference)

    def shown() -> list[str]:
        return walk.tenant1.run("get", RULES, "-n", "universe").splitlines()

    wait_until(lambda: shown()[1].split()[1:] == ["success", "1", "1"])
    assert shown()[0].split() == ["NAME", "RESULT", "MATCHED", "RUNNING", "MESSAGE"]
    for kind in ("Ready", "Matched", "Running"):
        walk.tenant1.run(
            "wait", "-n", "universe", RULES, "tenant1-rule1", f"--for=condition={kind}", f"--timeout={PATIENCE:.0f}s"
        )
    return walk.companion(name)


def another_template(walk: Walk, pod1: str, before: Any) -> Any:
    change = '[{"op" : "replace","path" : "/spec/template/spec/containers/0/name", "value": "updated"}]'
    walk.tenant1.run("patch", RULES, "-n", "universe", "--type=json", "-p", change, "tenant1-rule1")
    name = f"tenant1-rule1-{pod1}"
    wanted = [f"{name}\tupdated", "tenant1-uvspod1\tnginx"]
    command = ("get", "pods", "-n", "tenant-tenant1", f"-o=jsonpath={PODS_BY_CONTAINER}")
    wait_until(lambda: walk.icp.run(*command).splitlines() == wanted)
    walk.run_alone("tenant-tenant1", name, "tenant1-uvspod1")
    after = walk.companion(name)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["annotations"]["tenant-workload-labels"] == "{}"
    (mount,) = [volume for volume in after["spec"]["volumes"] if volume["name"] == "workload-labels"]
    (item,) = mount["downwardAPI"]["items"]
    assert (item["path"], item["fieldRef"]["fieldPath"]) == ("labels", "metadata.annotations['tenant-workload-labels']")
    node = wait_until(lambda: walk.tenant1.run("get", "pod", "tenant1-pod1", "-o", "jsonpath={.spec.nodeName}"))
    wait_until(lambda: walk.companion(name)["metadata"]["annotations"].get("tenant-node-name") == node)
    return after


def a_label_on_the_workload(walk: Walk, pod1: str, companion: Any) -> None:
    assert walk.tenant1.run("label", "pod", "tenant1-pod1", "foo=bar") == "pod/tenant1-pod1 labeled\n"
    name = f"tenant1-rule1-{pod1}"
    annotations = "-o=jsonpath={.metadata.annotations.tenant-workload-labels}"
    wait_until(lambda: walk.icp.run("get", "pod", "-n", "tenant-tenant1", name, annotations) == '{"foo":"bar"}')
    assert walk.companion(name)["metadata"]["uid"] == companion["metadata"]["uid"]


def one_expression_less(walk: Walk, pod1: str, pod2: str, companion: Any) -> None:
    change = '[{"op" : "remove","path" : "/spec/workloadTerms/0/matchExpressions/1"}]'
    walk.tenant1.run("patch", RULES, "-n", "universe", "--type=json", "-p", change, "tenant1-rule1")
    walk.run_alone("tenant-tenant1", f"tenant1-rule1-{pod1}", f"tenant1-rule1-{pod2}", "tenant1-uvspod1")
    assert walk.companion(f"tenant1-rule1-{pod1}")["metadata"]["uid"] == companion["metadata"]["uid"]


def the_mirrors(walk: Walk, pod1: str, pod2: str) -> None:
    def shown() -> list[list[str]]:
        return [line.split() for line in walk.tenant1.run("get", UVS_PODS, "-n", "universe").splitlines()]

    names = sorted([f"tenant1-rule1-{pod1}", f"tenant1-rule1-{pod2}"])
    wanted = [["NAME", "RESULT", "MESSAGE"], *([name, "success"] for name in [*names, "tenant1-uvspod1"])]
    wait_until(lambda: shown() == wanted)
    walk.tenant1.run("delete", UVS_PODS, "-n", "universe", names[0])
    wait_until(lambda: shown() == wanted)


def a_workload_less(walk: Walk, pod1: str, pod2: str) -> None:
    assert walk.tenant1.run("delete", "po", "tenant1-pod2").startswith('pod "tenant1-pod2"')
    walk.run_alone("tenant-tenant1", f"tenant1-rule1-{pod1}", "tenant1-uvspod1")
    mirror = f"tenant1-rule1-{pod2}"
    command = ("get", UVS_PODS, "-n", "universe", "-o", "name", "--ignore-not-found", mirror)
    wait_until(lambda: walk.tenant1.run(*command) == "")


def the_rule_is_gone(walk: Walk) -> None:
    told = walk.tenant1.run("delete", "-n", "universe", RULES, "tenant1-rule1")
    assert told.startswith('workloadrule.workload.universe.nvidia.com "tenant1-rule1" deleted')
    walk.run_alone("tenant-tenant1", "tenant1-uvspod1")
    command = ("get", UVS_PODS, "-n", "universe", "-o", "name")
    wait_until(lambda: walk.tenant1.run(*command) == "uvspod.resource.universe.nvidia.com/tenant1-uvspod1\n")


def a_rule_without_effect(walk: Walk) -> None:
    """A warning when it is written, columns that say so, and the way back: first its key, then its Pod is wrong."""
    key, right = "state.extra.labels.example.com", 'state.extra.labels."example.com"'
    container = {"name": "c", "image": "c", "resources": {"limits": {"example.com/none": "1"}}}
    rule = {
        "apiVersion": "workload.universe.nvidia.com/v1alpha1",
        "kind": "WorkloadRule",
        "metadata": {"name": "idle", "namespace": "universe"},
        "spec": {
            "workloadTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": ["web"]}]}],
            "template": {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}},
        },
    }
    path = "spec.workloadTerms[0].matchExpressions[0].key"
    warning = f"Warning: {path}: In holds for no workload: quote labels with dots: {right}\n"
    of_all = {**rule, "apiVersion": "workload.infra.universe.nvidia.com/v1alpha1", "kind": "AdminWorkloadRule"}
    of_all["spec"] = {**rule["spec"], "tenantMatch": ["*"]}
    dry = ("apply", "--dry-run=server", "-f", "-")
    assert walk.icp.outputs(*dry, stdin=json.dumps(of_all))[1] == warning
    assert walk.tenant1.outputs("apply", "-f", "-", stdin=json.dumps(rule))[1] == warning

    def shown() -> list[str]:
        return walk.tenant1.run("get", RULES, "-n", "universe", "idle", "--no-headers").split(maxsplit=4)[1:]

    def told(kind: str) -> str:
        path = f'{{.status.conditions[?(@.type=="{kind}")].message}}'
        return walk.tenant1.run("get", RULES, "-n", "universe", "idle", "-o", f"jsonpath={path}")

    message = f"no workload can match: {path}: quote labels with dots: {right}"
    wait_until(lambda: shown()[:3] == ["success", "0", "0"] and shown()[3:])
    assert shown()[3].rstrip() == message
    assert told("Matched") == f"no workload can match: {path}: quote labels with dots: {right}"
    walk.tenant1.run("label", "pod", "tenant1-pod1", "example.com=web")
    change = [{"op": "replace", "path": "/spec/workloadTerms/0/matchExpressions/0/key", "value": right}]
    walk.tenant1.run("patch", RULES, "-n", "universe", "idle", "--type=json", "-p", json.dumps(change))
    wait_until(lambda: shown() == ["success", "1", "0"])
    wait_until(lambda: told("Running") == "0 of 1 companions run: 1 Unschedulable")
    change = [{"op": "remove", "path": "/spec/template/spec/containers/0/resources"}]
    walk.tenant1.run("patch", RULES, "-n", "universe", "idle", "--type=json", "-p", json.dumps(change))
    wait_until(lambda: shown() == ["success", "1", "1"])
    walk.tenant1.run("delete", "-n", "universe", RULES, "idle")
    walk.run_alone("tenant-tenant1", "tenant1-uvspod1")


def the_admin_rule(walk: Walk, pod1: str) -> None:
    template = base64.b64encode((EXAMPLES / "adminrule1-template.json").read_bytes()).decode()
    request = """
    {
      "rule": {
        "id": "adminrule1",
        "tenant_match": [ "tenant1", "tenant2" ],
        "data": {
          "orchestrator_type": 1,
          "resource_type": "v1/Pod",
          "dpu_selection_policy": "SameNode",
          "workload_terms": [
            { "match_expressions": [ { "key": "metadata.resourceNamespace", "operation": 1, "values": [ "default" ] } ] }
          ],
          "workload_info_inject": [ { "key": "@", "as_annotation": { "name": "full-workload-info" } } ],
          "rule_template": "$RULE_TEMPLATE"
        }
      }
    }
    """.replace("$RULE_TEMPLATE", template)
    walk.admin_rules.Create(json_format.Parse(request, pb.CreateRequest()), timeout=PATIENCE)
    names = {
        f"adminrule1-tenant-tenant1-{pod1}": (walk.tenant1, "tenant1-pod1"),
        f"adminrule1-tenant-tenant2-{walk.uid(walk.tenant2, 'tenant2-pod1')}": (walk.tenant2, "tenant2-pod1"),
    }
    walk.run_alone("universe", *names)
    for name, (tenant, workload) in names.items():
        found = walk.companion(name, "universe")
        host = tenant.run("get", "pod", workload, "-o", "jsonpath={.spec.nodeName}")
        assert found["spec"]["nodeName"] == f"dpu1-{host}"
        told = json.loads(found["metadata"]["annotations"]["full-workload-info"])
        assert told["metadata"]["resourceName"] == workload
        assert told["metadata"]["resourceType"] == "v1/Pod"
        assert told["state"]["nodeName"] == host
    assert set(walk.pods("tenant-tenant1")) == {"tenant1-uvspod1"}
    mirrors = walk.tenant1.run("get", UVS_PODS, "-n", "universe", "-o", "name")
    assert mirrors == "uvspod.resource.universe.nvidia.com/tenant1-uvspod1\n", "no mirrors of the admin's Pods"


def the_admin_rule_is_gone(walk: Walk) -> None:
    walk.admin_rules.Delete(pb.DeleteRequest(id="adminrule1"), timeout=PATIENCE)
    walk.run_alone("universe")
