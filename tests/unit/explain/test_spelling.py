"""Misspelt fields and keys get what was meant; what is right is never warned of."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.explain.keys import key_findings, near_key
from app.explain.manifests import sort_objects
from app.explain.model import Finding
from app.explain.reading import read_all
from app.explain.spelling import field_findings
from tests.support.explaining import given
from tests.support.paths import ROOT

CONTAINER = {"name": "c", "image": "i"}


def found(*objects: dict[str, Any]) -> list[Finding]:
    manifests = given(*objects)
    return [*(one for each in manifests.given for one in field_findings(each)), *key_findings(manifests)]


def said(*objects: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one.reason, one.field, one.meant) for one in found(*objects)]


def deployment(template: dict[str, Any]) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def test_a_misspelt_field_of_a_pod() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotation": {}}, "spec": {"contaners": []}}
    assert said(pod) == [
        ("UnknownField", "metadata.annotation", "annotations"),
        ("UnknownField", "spec.contaners", "containers"),
    ]
    assert found(pod)[1].text == (
        "error: Pod default/p (f:1): spec.contaners: unknown field: the API server refuses or drops it; "
        "did you mean containers?"
    )


def test_a_misspelt_field_of_a_template_has_its_path() -> None:
    container = {**CONTAINER, "resources": {"limit": {}}}
    assert said(deployment({"spec": {"containers": [container], "nodeselector": {}, "zzz": 1}})) == [
        ("UnknownField", "spec.template.spec.containers[0].resources.limit", "limits"),
        ("UnknownField", "spec.template.spec.nodeselector", "nodeSelector"),
        ("UnknownField", "spec.template.spec.zzz", ""),
    ]


def test_what_only_looks_like_a_template_may_have_fields_of_its_own() -> None:
    """As Knative Services have."""
    spec = {"containerConcurrency": 10, "timeoutSeconds": 300, "containers": [CONTAINER], "nodeselector": {}}
    service = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": {"template": {"spec": spec}}}
    (one,) = found(service)
    assert (one.severity, one.field, one.meant) == ("warning", "spec.template.spec.nodeselector", "nodeSelector")


def test_a_value_of_another_type() -> None:
    (one,) = found({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": "c"}})
    assert (one.reason, one.field, one.message) == ("WrongType", "spec.containers", "want a list, got a string")


@pytest.mark.parametrize(
    ("obj", "field", "meant"),
    [
        (
            {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {"headGroupSpec": {"template": {"spec": {"contaners": []}}}}},
            "spec.headGroupSpec.template.spec.contaners",
            "containers",
        ),
        (
            {
                "apiVersion": "workload.codeflare.dev/v1beta2",
                "kind": "AppWrapper",
                "spec": {"components": [{"template": deployment({"spec": {"containers": [CONTAINER], "volume": []}})}]},
            },
            "spec.components[0].template.spec.template.spec.volume",
            "volumes",
        ),
        (
            {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "spec": {"component": []}},
            "spec.component",
            "components",
        ),
        (
            {
                "apiVersion": "workload.universe.nvidia.com/v1alpha1",
                "kind": "WorkloadRule",
                "spec": {"workloadTerm": [], "template": {"spec": {"containers": [CONTAINER]}}},
            },
            "spec.workloadTerm",
            "workloadTerms",
        ),
        (
            {
                "apiVersion": "workload.universe.nvidia.com/v1alpha1",
                "kind": "WorkloadRule",
                "spec": {"template": {"spec": {"containers": [{**CONTAINER, "comand": []}]}}},
            },
            "spec.template.spec.containers[0].comand",
            "command",
        ),
        (
            {
                "apiVersion": "resource.universe.nvidia.com/v1alpha1",
                "kind": "UVSConfigMap",
                "spec": {"object": {"apiVersion": "v1", "kind": "ConfigMap", "dta": {}}},
            },
            "spec.object.dta",
            "data",
        ),
    ],
)  # fmt: skip
def test_fields_of_templates_and_of_berths_own_kinds(obj: dict[str, Any], field: str, meant: str) -> None:
    assert said({**obj, "metadata": {"name": "x"}}) == [("UnknownField", field, meant)]


def test_kinds_of_others_and_other_versions_are_not_judged() -> None:
    assert said(
        {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"tmplate": 1}},
        {"apiVersion": "extensions/v1beta1", "kind": "Deployment", "spec": {"rollbackTo": {}, "template": {"spec": {}}}},
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadta": {}},
    ) == []  # fmt: skip


def test_one_object_has_a_bounded_number_of_findings() -> None:
    spec = {"containers": [CONTAINER]} | {f"unknown{number}": 1 for number in range(100)}
    assert len(found({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})) == 20


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("k8s.v1.cni.cncf.io/network", "k8s.v1.cni.cncf.io/networks"),
        ("k8s.cni.cncf.io/networks", "k8s.v1.cni.cncf.io/networks"),
        ("k8s.v1.cni.cncf.io/Networks", "k8s.v1.cni.cncf.io/networks"),
        ("k8s.v1.cni.cncf.io/resourcename", "k8s.v1.cni.cncf.io/resourceName"),
        ("v1.multus-cni.io/default-networks", "v1.multus-cni.io/default-network"),
        ("berth.dev/resource-container", "berth.dev/resources-container"),
        ("berth.dev/dpu-of-hosts", "berth.dev/dpu-of-host"),
        ("berth.dev/injcet", "berth.dev/inject"),
    ],
)
def test_a_key_that_is_nearly_ours(key: str, meant: str) -> None:
    assert near_key(key) == meant
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {key: "x"}}}
    (one,) = found(pod)
    assert (one.severity, one.field, one.meant) == ("warning", f"metadata.annotations[{key}]", meant)


def test_keys_of_templates_have_their_path() -> None:
    metadata = {"labels": {"berth.dev/injects": "false"}}
    template = {"metadata": metadata, "spec": {"containers": [CONTAINER]}}
    ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {"headGroupSpec": {"template": template}}}
    assert [field for _, field, _ in said(deployment(template), ray)] == [
        "spec.template.metadata.labels[berth.dev/injects]",
        "spec.headGroupSpec.template.metadata.labels[berth.dev/injects]",
    ]


@pytest.mark.parametrize(
    "key",
    [
        "app", "networks", "k8s.v1.cni.cncf.io/policy-for", "k8s.ovn.org/pod-networks", "cni.projectcalico.org/podIP",
        "kubectl.kubernetes.io/restartedAt", "app.kubernetes.io/name", "v1.multus-cni.io/x", "",  "/", "a/b/c",
    ],
)  # fmt: skip
def test_keys_of_others_are_not_warned_of(key: str) -> None:
    assert near_key(key) == ""


def test_no_key_that_is_documented_is_warned_of() -> None:
    reference = (ROOT / "docs" / "reference" / "annotations.md").read_text()
    keys = re.findall(r"^\| `([^`]+)`", reference, re.MULTILINE)
    assert len(keys) > 30
    assert [key for key in keys if near_key(key)] == []


def test_nothing_is_wrong_with_the_examples() -> None:
    manifests = sort_objects(read_all([str(ROOT / "examples")], recursive=True))
    assert len(manifests.pods) > 5
    assert [*(one for each in manifests.given for one in field_findings(each)), *key_findings(manifests)] == []
