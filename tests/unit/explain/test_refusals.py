"""What an API server refuses of new objects, in `berth explain`."""

from __future__ import annotations

from typing import Any

import pytest

from app.explain.fields import field_findings, refusal_findings
from tests.support.explaining import given
from tests.support.object_cases import CASES, CONTAINER, NO_FIELD

NAME = ("metadata.name", "Required value: name or generateName is required")


def refused(obj: dict[str, Any]) -> list[tuple[str, str]]:
    (manifest,) = given(obj).given
    return [(finding.field, finding.message) for finding in refusal_findings(manifest)]


@pytest.mark.parametrize("kind", sorted({obj["kind"] for obj, _ in CASES}))
def test_what_an_api_server_refuses_is_an_error_and_nothing_else(kind: str) -> None:
    for obj, fields in (case for case in CASES if case[0]["kind"] == kind):
        (manifest,) = given(obj).given
        findings = [*refusal_findings(manifest), *(field_findings(manifest) if fields == NO_FIELD else ())]
        assert any(finding.severity == "error" for finding in findings) == bool(fields), (obj, fields)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("v1", "Pod"),
        ("v1", "Service"),
        ("v1", "Namespace"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"),
        ("workload.codeflare.dev/v1beta2", "AppWrapper"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        ("example.com/v1", "Thing"),
    ],
)
def test_every_kind_needs_a_name(version: str, kind: str) -> None:
    """An object that is stored already, and one whose name is made, have one."""
    obj: dict[str, Any] = {"apiVersion": version, "kind": kind}
    obj |= {"spec": {"containers": [CONTAINER]}} if kind == "Pod" else {}
    assert NAME in refused(obj)
    assert NAME in refused(obj | {"metadata": {"labels": {"a": "b"}}})
    assert NAME in refused(obj | {"metadata": {"name": ""}})
    for metadata in ({"name": "x"}, {"generateName": "x-"}, {"uid": "u"}):
        assert refused(obj | {"metadata": metadata}) == []


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("admission.k8s.io/v1", "AdmissionReview"),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
        ("authentication.k8s.io/v1", "TokenReview"),
        ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
        ("kustomize.config.k8s.io/v1alpha1", "Component"),
        ("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"),
        ("config.kueue.x-k8s.io/v1beta2", "Configuration"),
        ("kind.x-k8s.io/v1alpha4", "Cluster"),
        ("v1", "Config"),
    ],
)
def test_what_no_api_server_keeps_needs_no_name(version: str, kind: str) -> None:
    """Files of programs stand beside manifests, and reviews have no names."""
    obj = {"apiVersion": version, "kind": kind, "clusters": []}
    (manifest,) = given(obj).given
    assert [*refusal_findings(manifest), *field_findings(manifest)] == []


@pytest.mark.parametrize(
    ("version", "kind", "metadata", "field"),
    [
        ("example.com/v1", "Thing", {"name": "A_b"}, "metadata.name"),
        ("example.com/v1", "Thing", {"name": "x", "labels": {"a b": "c"}}, "metadata.labels"),
        ("example.com/v1", "Thing", {"name": "x", "annotations": {"a b": "c"}}, "metadata.annotations"),
        ("example.com/v1", "Thing", {"name": "x", "finalizers": ["plain"]}, ""),
        ("example.com/v1", "Thing", {"name": "x", "ownerReferences": [{"kind": "A"}]}, "metadata.ownerReferences.name"),
        ("rbac.authorization.k8s.io/v1", "Role", {"name": "system:A_b"}, ""),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", {"name": "a/b"}, "metadata.name"),
        ("v1", "Namespace", {"name": "a.b"}, "metadata.name"),
        ("v1", "Node", {"name": "a.b"}, ""),
        ("v1", "Service", {"name": "a.b"}, "metadata.name"),
        ("v1", "ConfigMap", {"name": "x", "generateName": "A_"}, "metadata.generateName"),
    ],
)
def test_metadata_of_every_kind(version: str, kind: str, metadata: dict[str, Any], field: str) -> None:
    fields = {where for where, _ in refused({"apiVersion": version, "kind": kind, "metadata": metadata})}
    assert field in fields if field else not fields
