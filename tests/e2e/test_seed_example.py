"""The example of Network Resources Injector's README, typed as it stands there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.devtools.demo.catalog import PARTS
from tests.e2e.users import Kubectl, PythonClient
from tests.support.ports import lasting_port
from tests.support.processes import Background
from tests.support.real_parts import CLAIMS, since
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.e2e
NODE = "host-a"

ATTACHMENT = """\
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  annotations:
    k8s.v1.cni.cncf.io/resourceName: example.com/foo
  name: foo-network
  namespace: default
spec:
  config: |
    {
      "cniVersion": "0.3.0",
      "name": "foo-network",
      "type": "bridge",
      "bridge": "br0",
      "isGateway": true,
      "ipam":
      {
        "type": "host-local",
        "subnet": "172.36.0.0/24",
        "dataDir": "/mnt/cluster-ipam"
      }
    }
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: webhook-demo
  annotations:
    k8s.v1.cni.cncf.io/networks: foo-network, foo-network
spec:
  containers:
  - image: busybox
    resources:
    command: ["tail", "-f", "/dev/null"]
    imagePullPolicy: IfNotPresent
    name: busybox
  restartPolicy: Always
"""


def patch_capacity(url: str, patch: list[dict[str, str]]) -> int:
    """The curl of the example: a JSON patch through `kubectl proxy`."""
    request = urllib.request.Request(
        url, json.dumps(patch).encode(), {"Content-Type": "application/json-patch+json"}, method="PATCH"
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return answer.status


@pytest.fixture
def proxy(kubeconfig: Path) -> Iterator[str]:
    port = lasting_port()
    process = Background(["kubectl", "--kubeconfig", str(kubeconfig), "proxy", f"--port={port}"])
    process.wait_for("Starting to serve")
    yield f"http://127.0.0.1:{port}"
    process.stop()


if shutil.which("kubectl"):

    def test_the_example_with_kubectl(kubeconfig: Path, proxy: str) -> None:
        kubectl = Kubectl(kubeconfig)
        status = f"{proxy}/api/v1/nodes/{NODE}/status"
        path = "/status/capacity/example.com~1foo"
        assert patch_capacity(status, [{"op": "add", "path": path, "value": "4"}]) == 200
        kubectl.run("create", "-f", "-", stdin=ATTACHMENT)
        kubectl.run("create", "-f", "-", stdin=POD)
        try:
            shown = kubectl.run("get", "pod", "webhook-demo", "-o", "yaml")
            block = shown[shown.index("    resources:\n") :].splitlines()[:5]
            assert block == [
                "    resources:",
                "      limits:",
                '        example.com/foo: "2"',
                "      requests:",
                '        example.com/foo: "2"',
            ]
            kubectl.run("wait", "--for=condition=Ready", "pod/webhook-demo", f"--timeout={PATIENCE:.0f}s")
            assert kubectl.get("pod", "webhook-demo")["spec"]["nodeName"] == NODE
        finally:
            assert patch_capacity(status, [{"op": "remove", "path": path}]) == 200
            kubectl.run("delete", "net-attach-def", "foo-network")
            kubectl.run("delete", "pod", "webhook-demo", "--grace-period=0", "--force")

    def test_applying_the_example_again_changes_nothing(kubeconfig: Path) -> None:
        """Without the `resources:` line, which tells a second apply to take away what was injected."""
        kubectl = Kubectl(kubeconfig)
        manifest = POD.replace("    resources:\n", "")
        try:
            kubectl.run("apply", "-f", "-", stdin=ATTACHMENT)
            assert "created" in kubectl.run("apply", "-f", "-", stdin=POD)
            assert 'example.com/foo: "2"' in kubectl.run("get", "pod", "webhook-demo", "-o", "yaml")
            kubectl.delete("pod", "webhook-demo")
            assert "created" in kubectl.run("apply", "-f", "-", stdin=manifest)
            before = kubectl.get("pod", "webhook-demo")["spec"]["containers"]
            assert "unchanged" in kubectl.run("apply", "-f", "-", stdin=manifest)
            assert kubectl.get("pod", "webhook-demo")["spec"]["containers"] == before
            assert "No resources" not in kubectl.run("get", "net-attach-def")
        finally:
            kubectl.delete("pod", "webhook-demo")
            kubectl.delete("net-attach-def", "foo-network")


def test_without_the_resource_the_pod_waits(sandbox: Path) -> None:
    """The injected request is what the scheduler sees: no node offers it, so the Pod is not placed.

    In tenant1 devices serve it.
    """
    python = PythonClient(sandbox / "tenant2.kubeconfig")
    python.create(yaml.safe_load(ATTACHMENT))
    python.create(yaml.safe_load(POD))
    try:
        found = wait_until(lambda: (python.get("pod", "webhook-demo").get("status") or {}).get("conditions"))
        assert found[0]["reason"] == "Unschedulable"
        assert "Insufficient example.com/foo" in found[0]["message"]
    finally:
        python.delete("pod", "webhook-demo")
        python.delete("net-attach-def", "foo-network")


@since(CLAIMS)
def test_devices_serve_the_resource_where_no_node_offers_it(python: PythonClient) -> None:
    """In tenant1: two devices by a claim for extended resources, and the network status that says which."""
    python.create(yaml.safe_load(ATTACHMENT))
    python.create(yaml.safe_load(POD))
    try:
        found = wait_until(lambda: _network_status(python.get("pod", "webhook-demo")))
        assert [one["interface"] for one in found] == ["eth0", "net1", "net2"]
        assert [one["ips"][0].rpartition(".")[0] for one in found[1:]] == ["172.36.0"] * 2
        assert len({one["device-info"]["pci"]["pci-address"] for one in found[1:]}) == 2
        status = python.get("pod", "webhook-demo")["status"]
        assert status["extendedResourceClaimStatus"]["requestMappings"][0]["resourceName"] == "example.com/foo"
    finally:
        python.delete("pod", "webhook-demo")
        python.delete("net-attach-def", "foo-network")


def _network_status(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return json.loads(pod["metadata"]["annotations"].get("k8s.v1.cni.cncf.io/network-status", "[]"))


def test_the_demo_holds() -> None:
    """`berth demo` plays all examples, says what was seen and what comes next, and exits 0."""
    done = subprocess.run(
        [sys.executable, "-m", "app", "demo"], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = re.findall(r"^Step (\d+) of (\d+): ", done.stdout, re.MULTILINE)
    assert [number for number, _ in steps] == [str(number) for number in range(1, len(steps) + 1)]
    assert {total for _, total in steps} == {str(len(steps))}
    shown, seen = done.stdout.split("You have seen:")
    for part in PARTS:
        assert part.title in shown
        assert part.seen in seen
    assert "berth sandbox" in seen
    assert "0 roles" not in shown
