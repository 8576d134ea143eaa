"""The manifests that the tests of `berth explain` read, and the ways in which they type the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.cli.main import run
from app.explain.manifests import Manifests, sort_objects
from app.explain.reading import Source
from app.kube.documents import unfold

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

PLAIN = "{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {containers: [{name: c, image: i}]}}\n"

DENIED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {k8s.v1.cni.cncf.io/networks: nowhere}}
    spec: {containers: [{name: c, image: i}]}
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


def given(*objects: dict[str, Any], namespace: str = "") -> Manifests:
    """The manifests of a file `f` with these objects, each on the line of its number."""
    pairs = [pair for index, obj in enumerate(objects, 1) for pair in unfold(obj, f"f:{index}")]
    return sort_objects(Source(pairs), namespace=namespace)


def explain(*arguments: str) -> int:
    return run(["explain", *arguments])


@pytest.fixture
def plain_surroundings(monkeypatch) -> None:
    """No variable of the caller's shell changes the answer."""
    for name in ("NO_COLOR", "FORCE_COLOR", "NAMESPACE", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def manifests(tmp_path, monkeypatch) -> Path:
    """The directory the commands are typed in."""
    for name, text in {"nads": NADS, "pod": POD, "plain": PLAIN, "denied": DENIED}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path
