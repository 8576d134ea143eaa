"""`berth explain` says by which road the devices of a Pod would be served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.explaining import NADS, POD, explain, plain_surroundings  # noqa: F401  the last is a fixture

pytestmark = pytest.mark.usefixtures("plain_surroundings")
OFFER = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: vf.example.com}
spec: {extendedResourceName: example.com/foo}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-vfs}
spec:
  driver: vf.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
    - name: a
      attributes:
        k8s.cni.cncf.io/deviceID: {string: "0000:03:02.0"}
        k8s.cni.cncf.io/resourceName: {string: example.com/foo}
"""
NODE = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {example.com/foo: '4'}}}\n"
BY_CLAIM = NADS.replace("k8s.v1.cni.cncf.io/resourceName: example.com/foo", "berth.dev/device-class: vf.example.com")


def answer(folder: Path, capsys: pytest.CaptureFixture[str], *texts: str, flags: tuple[str, ...] = ()) -> str:
    files = []
    for index, text in enumerate(texts):
        (folder / f"{index}.yaml").write_text(text)
        files += ["-f", str(folder / f"{index}.yaml")]
    assert explain(*files, *flags) == 0
    return capsys.readouterr().out


def test_a_device_plugin_and_a_class_and_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served = "  served: example.com/foo: "
    assert f"{served}device plugin, on n1" in answer(tmp_path, capsys, POD, NADS, NODE)
    by_class = answer(tmp_path, capsys, POD, NADS, OFFER)
    assert f"{served}DRA by extended resource, DeviceClass vf.example.com with 1 device" in by_class
    without = NODE.replace("example.com/foo", "example.com/bar")
    unoffered = answer(tmp_path, capsys, POD, NADS, without)
    assert f"{served}nothing offers it" in unoffered
    assert "example.com/foo: nothing offers it: the Pod would stay Pending\n" in unoffered
    assert unoffered.endswith("0 errors, 1 warning\n")


def test_a_claim_of_a_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(tmp_path, capsys, POD, BY_CLAIM, OFFER, flags=("--claims",))
    assert said.count("DRA by claim, DeviceClass vf.example.com with 1 device") == 2
    assert "spec.resourceClaims" in said
    (found,) = json.loads(answer(tmp_path, capsys, POD, BY_CLAIM, OFFER, flags=("--claims", "-o", "json")))["objects"]
    assert len(found["roads"]) == 2


@pytest.mark.parametrize(("name", "known"), [("definitions", True), ("other", False)])
def test_a_claim_of_a_definition(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, *, known: bool) -> None:
    """The flag says which ConfigMap has the definitions."""
    asks = POD.replace("containers:", "resourceClaims: [{name: vf, resourceClaimTemplateName: one-vf}]\n  containers:")
    assert asks != POD
    texts = f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{one-vf: 'requests: {{vf: vf.example.com}}'}}}}"
    said = answer(tmp_path, capsys, asks, NADS, OFFER, texts, flags=("--claim-templates", "definitions"))
    assert ("claim vf: DRA by claim, DeviceClass vf.example.com with 1 device" in said) is known


def test_nothing_is_said_where_no_offer_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "served: " not in answer(tmp_path, capsys, POD, NADS)
    (found,) = json.loads(answer(tmp_path, capsys, POD, NADS, flags=("-o", "json")))["objects"]
    assert "roads" not in found
