"""The manifests that the tests of `berth explain` read, and the ways in which they type the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from app.cli.main import run

NADS = """
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: foo-network
  namespace: default
  annotations: {k8s.v1.cni.cncf.io/resourceName: example.com/foo}
spec: {config: '{"cniVersion": "0.3.0", "name": "foo-network", "type": "bridge"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: racked
  namespace: default
  annotations: {k8s.v1.cni.cncf.io/nodeSelector: rack=two}
"""

POD = """
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
    name: busybox
"""

PLAIN = "{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {containers: [{name: c}]}}\n"

DENIED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {annotations: {k8s.v1.cni.cncf.io/networks: nowhere}}
    spec: {containers: [{name: c}]}
"""

SWITCHES = """
kind: ConfigMap
metadata: {name: nri-control-switches}
data:
  config.json: |
    {"user-defined-injections": {"wants-foo": {"op": "add", "path": "/metadata/annotations",
      "value": {"k8s.v1.cni.cncf.io/networks": "foo-network"}}}}
"""

FOO_TWICE = "annotation k8s.v1.cni.cncf.io/networks selects default/foo-network 2 times, which needs example.com/foo"


def explain(*arguments: str) -> int:
    return run(["explain", *arguments])


def berth(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """The real program in a process of its own."""
    root = Path(__file__).parents[2]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**inherited, "PYTHONPATH": str(root), **environment},
    )
