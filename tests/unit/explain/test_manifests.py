"""Every kind that makes Pods yields the Pod that the API server would be asked to create."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import UsageError
from app.explain.answer import Answer
from app.explain.explaining import explain
from app.explain.manifests import TEMPLATES
from app.explain.rehearsal import Rehearsal
from app.registry import settings_of
from tests.support.explaining import given

SPEC = {"containers": [{"name": "c", "image": "i", "resources": None}]}


def owner(kind: str) -> dict:
    inner: dict = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
    for member in reversed(TEMPLATES[kind]):
        inner = {member: inner}
    return {"kind": kind, "metadata": {"name": "o", "namespace": "ns"}, **inner}


@pytest.mark.parametrize("kind", sorted(set(TEMPLATES) - {"Pod"}))
def test_templates_become_pods_of_their_owners_namespace(kind) -> None:
    (manifest,) = given(owner(kind)).pods
    assert manifest.subject == f"{kind} ns/o (f:1)"
    assert manifest.pod == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "o-", "namespace": "ns", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def test_a_pod_stays_as_it_is_but_for_its_namespace() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": SPEC, "unknown": {"kept": 1}}
    (manifest,) = given(pod, namespace="given").pods
    assert manifest.pod["metadata"] == {"name": "p", "namespace": "given"}
    assert manifest.pod["unknown"] == {"kept": 1}
    assert pod["metadata"] == {"name": "p"}
    (manifest,) = given(pod).pods
    assert manifest.owner.namespace == "default"


def test_lists_of_any_kind_are_opened() -> None:
    pod = {"metadata": {"name": "p"}, "spec": SPEC}
    found = given(
        {"kind": "List", "items": [{"kind": "Pod", **pod}, {"kind": "List", "items": [{"kind": "Pod", **pod}]}]},
        {"kind": "PodList", "apiVersion": "v1", "items": [pod]},
        {"kind": "PodList", "items": None},
    )
    assert [manifest.owner.place for manifest in found.pods] == ["f:1 item 1", "f:1 item 2 item 1", "f:2 item 1"]


def test_other_kinds_are_counted() -> None:
    found = given({"kind": "Service", "metadata": {"name": "s"}}, {"kind": "Pod", "spec": SPEC})
    assert found.unused == {"Service": 1}
    assert len(found.pods) == 1


def test_kinds_of_other_groups_are_counted_with_their_group() -> None:
    """A Job of another project keeps its Pods elsewhere."""
    found = given({"apiVersion": "batch.example.com/v1", "kind": "Job", "metadata": {"name": "j"}})
    assert found.unused == {"Job.batch.example.com": 1}
    assert given({"apiVersion": "batch/v1", **owner("Job")}).pods


def test_attachments_and_config_maps_are_set_aside() -> None:
    found = given(
        {"kind": "NetworkAttachmentDefinition", "metadata": {"name": "n"}},
        {"kind": "ConfigMap", "metadata": {"name": "m"}},
        namespace="ns",
    )
    assert found.of("NetworkAttachmentDefinition")[0]["metadata"] == {"name": "n", "namespace": "ns"}
    assert found.of("ConfigMap")[0]["metadata"] == {"name": "m", "namespace": ""}


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"metadata": {}}, "f:1: .* kind is missing"),
        ({"kind": 3}, "kind is missing"),
        ({"kind": "List", "items": ["x"]}, "f:1 item 1: want an object"),
    ],
)
def test_mistakes_are_named(obj, message) -> None:
    with pytest.raises(UsageError, match=message):
        given(obj)


def test_an_owner_without_a_template_is_a_finding() -> None:
    found = given(
        {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {}}, {"kind": "CronJob", "spec": {"jobTemplate": "x"}}
    )
    assert [one.text for one in found.findings] == [
        "error: Deployment default/d (f:1): spec.template: want a Pod template",
        "error: CronJob default/ (f:2): spec.jobTemplate.spec.template: want a Pod template",
    ]


@pytest.mark.parametrize("metadata", [None, [], "text", {"annotations": "text"}])
def test_odd_metadata_never_breaks_the_walk(metadata) -> None:
    (manifest,) = given({"kind": "Pod", "metadata": metadata, "spec": SPEC}).pods
    assert manifest.owner.namespace == "default"


TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}


@pytest.mark.parametrize(
    ("version", "kind", "spec", "paths"),
    [
        ("argoproj.io/v1alpha1", "Rollout", {"template": TEMPLATE}, ["spec.template"]),
        ("kueue.x-k8s.io/v1beta2", "Workload", {"podSets": [{"template": TEMPLATE}]}, ["spec.podSets[0].template"]),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}},
            ["spec.pytorchReplicaSpecs.Master.template", "spec.pytorchReplicaSpecs.Worker.template"],
        ),
        (
            "ray.io/v1",
            "RayCluster",
            {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [{"template": TEMPLATE}]},
            ["spec.headGroupSpec.template", "spec.workerGroupSpecs[0].template"],
        ),
        (
            "workload.codeflare.dev/v1beta2",
            "AppWrapper",
            {
                "components": [
                    {"template": {"apiVersion": "v1", "kind": "Pod", **TEMPLATE}},
                    {"template": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": {"template": TEMPLATE}}},
                ]
            },
            ["spec.components[0].template", "spec.components[1].template.spec.template"],
        ),
        ("monitoring.coreos.com/v1", "Prometheus", SPEC, []),
        ("apps/v1", "ControllerRevision", {"template": TEMPLATE}, []),
    ],
)  # fmt: skip
def test_pod_templates_of_other_kinds_have_their_paths(version, kind, spec, paths) -> None:
    found = given({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec})
    assert [one.path for one in found.pods] == paths
    for one in found.pods:
        assert one.pod["metadata"] == {"generateName": "x-", "namespace": "default", "labels": {"a": "b"}}
    assert found.unused == ({} if paths else {kind: 1})
    assert found.empty == (not paths)


def test_counts_and_templates_that_cannot_be_read_are_findings() -> None:
    ray = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [{"template": TEMPLATE, "replicas": "two"}]}
    (finding,) = given(
        {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "x"}, "spec": ray}
    ).findings
    assert (finding.reason, "want an integer, got 'two'" in finding.message) == ("NoTemplate", True)


async def explained(*objects: dict[str, Any], namespace: str = "default") -> Answer:
    settings = settings_of("webhook").load({}, environment=False)
    return await explain(given(*objects, namespace=namespace), Rehearsal(settings, "kube-system"))


def pod_with(networks: str, **metadata: Any) -> dict[str, Any]:
    metadata = {"name": "p", "annotations": {"k8s.v1.cni.cncf.io/networks": networks}, **metadata}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


@pytest.mark.parametrize("kind", ["SriovNetwork", "SriovIBNetwork", "OVSNetwork"])
async def test_an_object_of_the_sriov_operator_makes_an_attachment(kind: str) -> None:
    network: dict[str, Any] = {
        "apiVersion": "sriovnetwork.openshift.io/v1",
        "kind": kind,
        "metadata": {"name": "fast", "namespace": "sriov"},
        "spec": {"resourceName": "nics", "networkNamespace": "default"},
    }
    answer = await explained(network, pod_with("fast"))
    (pod,) = answer.pods
    assert pod.pod["spec"]["containers"][0]["resources"]["limits"] == {"openshift.io/nics": "1"}
    assert "taken for NetworkAttachmentDefinition default/fast with resource openshift.io/nics" in answer.notes[0]
    assert not answer.unused
    del network["spec"]["networkNamespace"]
    (pod,) = (await explained(network, pod_with("sriov/fast"))).pods
    assert not pod.denied
    (pod,) = (await explained(network | {"apiVersion": "example.com/v1"}, pod_with("sriov/fast"))).pods
    assert pod.denied


def network(kind: str, group: str = "mellanox.com/v1alpha1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "fast"}, "spec": spec}


OVN = "k8s.ovn.org/v1"


@pytest.mark.parametrize(
    ("maker", "selected", "resource"),
    [
        (network("HostDeviceNetwork", networkNamespace="team", resourceName="pool"), "team/fast", "nvidia.com/pool"),
        (network("HostDeviceNetwork", resourceName="nvidia.com/pool"), "default/fast", "nvidia.com/pool"),
        (network("HostDeviceNetwork", networkNamespace="team"), "team/fast", ""),
        (network("MacvlanNetwork", networkNamespace="team", resourceName="unread"), "team/fast", ""),
        (network("MacvlanNetwork", master="eth1"), "default/fast", ""),
        (network("IPoIBNetwork", networkNamespace="team", ipam="{"), "team/fast", ""),
        (network("IPoIBNetwork"), "default/fast", ""),
        (network("UserDefinedNetwork", OVN, topology="Layer2"), "apps/fast", ""),
        (network("ClusterUserDefinedNetwork", OVN, namespaceSelector={}), "fast", ""),
        (network("ClusterUserDefinedNetwork", OVN, namespaceSelector={"matchLabels": {"a": "b"}}), "fast", ""),
        (network("MacvlanNetwork", "example.com/v1"), "default/fast", None),
        (network("UserDefinedNetwork", OVN), "other/fast", None),
        (network("MacvlanNetwork", networkNamespace="team"), "default/fast", None),
        (network("ClusterUserDefinedNetwork", OVN, namespaceSelector={"matchLabels": {"a": "c"}}), "fast", None),
        (network("ClusterUserDefinedNetwork", OVN, namespaceSelector={"matchLabels": 3}), "fast", None),
    ],
)
async def test_an_object_of_an_operator_makes_the_attachment_of_its_source(maker, selected, resource) -> None:
    """Each as `app.explain.templates` names the source; None where there is no such attachment."""
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"a": "b"}}}
    answer = await explained(maker, home, pod_with(selected), namespace="apps")
    (pod,) = answer.pods
    assert pod.denied == (resource is None)
    if resource is not None:
        limits = pod.pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
        assert limits == ({resource: "1"} if resource else {})
        assert f"{maker['kind']} {'apps/' * (maker['kind'] == 'UserDefinedNetwork')}fast" in answer.notes[0]
    assert answer.findings == []


async def test_a_namespace_that_the_manifests_lack_has_the_labels_that_are_wanted() -> None:
    by_name = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a"]}]}
    for selector, denied in (({"matchLabels": {"x": "y"}}, False), (by_name, True)):
        maker = network("ClusterUserDefinedNetwork", OVN, namespaceSelector=selector)
        (pod,) = (await explained(maker, pod_with("fast"), namespace="apps")).pods
        assert pod.denied == denied


@pytest.mark.parametrize(
    ("version", "kind", "holder"),
    [
        ("kubevirt.io/v1", "VirtualMachine", ("template",)),
        ("kubevirt.io/v1", "VirtualMachineInstance", None),
        ("kubevirt.io/v1", "VirtualMachineInstanceReplicaSet", ("template",)),
        ("pool.kubevirt.io/v1beta1", "VirtualMachinePool", ("virtualMachineTemplate", "spec", "template")),
    ],
)
async def test_a_machine_of_kubevirt_has_a_pod_with_its_networks(
    version: str, kind: str, holder: tuple[str, ...] | None
) -> None:
    spec: dict[str, Any] = {
        "networks": [{"name": "pod", "pod": {}}, {"name": "n", "multus": {"networkName": "nowhere"}}]
    }
    for field in ("spec", *reversed(holder)) if holder else ():
        spec = {field: spec}
    answer = await explained({"apiVersion": version, "kind": kind, "metadata": {"name": "vm"}, "spec": spec})
    (pod,) = answer.pods
    assert pod.denied
    assert "'default/nowhere'" in pod.decision.message
    assert [one.text for one in answer.findings] == []


async def test_an_attachment_of_another_namespace_is_pointed_to() -> None:
    nad = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "vf"}}
    (pod,) = (await explained(nad, pod_with("vf", namespace="other"))).pods
    assert pod.denied
    assert pod.decision.warnings == ["namespace default has an attachment of this name: write default/vf"]
