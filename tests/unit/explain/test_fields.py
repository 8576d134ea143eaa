"""Misspelt fields and keys get what was meant; what is right is never warned of."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.explain.fields import field_findings
from app.explain.keys import key_findings, near_key
from app.explain.manifests import sort_objects
from app.explain.model import Finding
from app.explain.reading import read_all
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
    """But for the version itself."""
    assert said(
        {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"tmplate": 1}},
        {"apiVersion": "extensions/v1beta1", "kind": "Deployment", "spec": {"rollbackTo": {}, "template": {"spec": {}}}},
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadta": {}},
    ) == [("UnknownVersion", "apiVersion", "apps/v1")]  # fmt: skip


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


NETWORKS = "k8s.v1.cni.cncf.io/networks"
POD_SPEC = {"containers": [{"name": "app"}]}


def kind(api_version: str, name: str, spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": name, "metadata": {"name": "x", **metadata}, "spec": spec or {}}


def template(**metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "spec": POD_SPEC}


def job_of(name: str, **metadata: Any) -> dict[str, Any]:
    return kind("batch/v1", name, {"template": template()}, **metadata)


def wrapper(component: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return kind("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [{"template": component}]}, **metadata)


ON = {"annotations": {NETWORKS: "a"}}
HOME = f"annotations[{NETWORKS}]"
TO_TEMPLATE = "read on Pods alone: put it into spec.template.metadata.annotations"
JOB_SET = {"replicatedJobs": [{"name": "w", "template": {"metadata": ON, "spec": {"template": template()}}}]}
ON_PODS = "read on Pods alone"


@pytest.mark.parametrize(
    ("obj", "field", "message"),
    [
        (kind("apps/v1", "Deployment", {"template": template()}, **ON), f"metadata.{HOME}", TO_TEMPLATE),
        (kind("apps/v1", "StatefulSet", {"template": template()}, **ON), f"metadata.{HOME}", TO_TEMPLATE),
        (kind("apps/v1", "DaemonSet", {"template": template()}, labels=ON["annotations"]),
         f"metadata.labels[{NETWORKS}]", TO_TEMPLATE),
        (kind("apps/v1", "Deployment", {"template": {**template(), **ON}}), f"spec.template.{HOME}", TO_TEMPLATE),
        (kind("v1", "Pod", POD_SPEC, labels={NETWORKS: "a"}), f"metadata.labels[{NETWORKS}]",
         "read among annotations alone: put it into metadata.annotations"),
        (kind("v1", "Pod", {**POD_SPEC, **ON}), f"spec.{HOME}", f"{ON_PODS}"),
        (kind("batch/v1", "CronJob", {"jobTemplate": {"metadata": ON, "spec": {"template": template()}}}),
         f"spec.jobTemplate.metadata.{HOME}", f"{ON_PODS}: put it into spec.jobTemplate.spec.template.metadata.annotations"),
        (kind("apps/v1", "StatefulSet", {"template": template(), "volumeClaimTemplates": [{"metadata": ON}]}),
         f"spec.volumeClaimTemplates[0].metadata.{HOME}", TO_TEMPLATE),
        (wrapper(job_of("Job"), **ON), f"metadata.{HOME}", ON_PODS),
        (wrapper(job_of("Job", **ON)), f"spec.components[0].template.metadata.{HOME}",
         f"{ON_PODS}: put it into spec.components[0].template.spec.template.metadata.annotations"),
        (kind("jobset.x-k8s.io/v1alpha2", "JobSet", JOB_SET | {"replicatedJobs": [{"name": "w", "template": {"spec": {
            "template": template()}}}]}, **ON), f"metadata.{HOME}",
         f"{ON_PODS}: put it into spec.replicatedJobs[0].template.spec.template.metadata.annotations"),
        (kind("kubevirt.io/v1", "VirtualMachine", {}, **ON), f"metadata.{HOME}", ON_PODS),
        (kind("v1", "Namespace", {}, **ON), f"metadata.{HOME}", ON_PODS),
        (kind("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", {}, **ON), f"metadata.{HOME}", ON_PODS),
        (job_of("Job", annotations={"app_policy": "gold"}), "metadata.annotations[app_policy]", TO_TEMPLATE),
        (kind("v1", "Pod", POD_SPEC, labels={"app_cache_min": "2"}), "metadata.labels[app_cache_min]",
         "read among annotations alone: put it into metadata.annotations"),
        (job_of("Job", annotations={"berth.dev/dpu-of-host": "h"}), "metadata.annotations[berth.dev/dpu-of-host]", TO_TEMPLATE),
        (job_of("Job", labels={"berth.dev/inject": "false"}), "metadata.labels[berth.dev/inject]",
         "read on Pods, NetworkAttachmentDefinitions and Namespaces alone: put it into spec.template.metadata.labels"),
        (kind("v1", "Namespace", {}, annotations={"berth.dev/inject": "false"}), "metadata.annotations[berth.dev/inject]",
         "read among labels alone: put it into metadata.labels"),
        (kind("v1", "Pod", POD_SPEC, annotations={"berth.dev/inject-template": "true"}),
         "metadata.annotations[berth.dev/inject-template]", "read on Jobs"),
        (kind("v1", "Pod", POD_SPEC, annotations={"k8s.v1.cni.cncf.io/resourceName": "a/b"}),
         "metadata.annotations[k8s.v1.cni.cncf.io/resourceName]", "read on NetworkAttachmentDefinitions alone"),
        (kind("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", {}, labels={"k8s.v1.cni.cncf.io/resourceName": "b"}),
         "metadata.labels[k8s.v1.cni.cncf.io/resourceName]", "read among annotations alone: put it into metadata.annotations"),
        (kind("v1", "Service", {}, labels={"berth.dev/network": "a"}), "metadata.labels[berth.dev/network]",
         "read among annotations alone: put it into metadata.annotations"),
        (job_of("Job", annotations={"workload.codeflare.dev.appwrapper/retryLimit": "1"}),
         "metadata.annotations[workload.codeflare.dev.appwrapper/retryLimit]", "read on AppWrappers alone"),
    ],
)  # fmt: skip
def test_a_known_key_in_another_place(obj: dict[str, Any], field: str, message: str) -> None:
    (one,) = [each for each in found(obj) if each.reason == "MisplacedKey"]
    assert (one.severity, one.field) == ("warning", field)
    assert one.message.startswith(message)


INTO_RAY = f"{ON_PODS}: put it into spec.headGroupSpec.template.metadata.annotations"
INTO_JOB = f"{ON_PODS}: put it into spec.replicatedJobs[0].template.spec.template.metadata.annotations"
ARGO = {"templates": [{"name": "x", "metadata": ON, "container": {"image": "i"}}], "podMetadata": ON}


def replicated(**metadata: Any) -> dict[str, Any]:
    job = {"metadata": metadata, "spec": {"template": template()}}
    return kind("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"name": "w", "template": job}]})


def of_ray(**group: Any) -> dict[str, Any]:
    return kind("ray.io/v1", "RayCluster", {"headGroupSpec": {"rayStartParams": {}, "template": template(), **group}})


@pytest.mark.parametrize(
    ("obj", "field", "message"),
    [
        (replicated(**ON), f"spec.replicatedJobs[0].template.metadata.{HOME}", INTO_JOB),
        (replicated(labels={NETWORKS: "a"}), f"spec.replicatedJobs[0].template.metadata.labels[{NETWORKS}]", INTO_JOB),
        (replicated(**{NETWORKS: "a"}), f"spec.replicatedJobs[0].template.metadata[{NETWORKS}]", INTO_JOB),
        *(
            (kind("kubeflow.org/v1", name, {specs: {"Worker": {"metadata": ON, "template": template()}}}),
             f"spec.{specs}.Worker.metadata.{HOME}",
             f"{ON_PODS}: put it into spec.{specs}.Worker.template.metadata.annotations")
            for name, specs in (("PyTorchJob", "pytorchReplicaSpecs"), ("TFJob", "tfReplicaSpecs"),
                                ("MPIJob", "mpiReplicaSpecs"), ("XGBoostJob", "xgbReplicaSpecs"))
        ),
        (of_ray(**ON), f"spec.headGroupSpec.{HOME}", INTO_RAY),
        (of_ray(metadata=ON), f"spec.headGroupSpec.metadata.{HOME}", INTO_RAY),
        (kind("ray.io/v1", "RayCluster", {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [
            {"groupName": "w", "metadata": ON, "template": template()}]}), f"spec.workerGroupSpecs[0].metadata.{HOME}",
         f"{ON_PODS}: put it into spec.workerGroupSpecs[0].template.metadata.annotations"),
        (kind("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": {
            "metadata": ON, "workerTemplate": template()}}), f"spec.leaderWorkerTemplate.metadata.{HOME}",
         f"{ON_PODS}: put it into spec.leaderWorkerTemplate.workerTemplate.metadata.annotations"),
        (kind("argoproj.io/v1alpha1", "Rollout", {"template": {**template(), **ON}}), f"spec.template.{HOME}",
         f"{ON_PODS}: put it into spec.template.metadata.annotations"),
        (kind("argoproj.io/v1alpha1", "Workflow", ARGO, **ON), f"metadata.{HOME}",
         f"{ON_PODS}: put it into spec.templates[0].metadata.annotations"),
        (kind("argoproj.io/v1alpha1", "CronWorkflow", {"workflowSpec": ARGO}, **ON), f"metadata.{HOME}",
         f"{ON_PODS}: put it into spec.workflowSpec.templates[0].metadata.annotations"),
        (kind("kueue.x-k8s.io/v1beta2", "Workload", {"podSets": [{"metadata": ON, "template": template()}]}),
         f"spec.podSets[0].metadata.{HOME}", f"{ON_PODS}: put it into spec.podSets[0].template.metadata.annotations"),
        ({**kind("apps/v1", "Deployment", {"template": template()}), **ON}, HOME, TO_TEMPLATE),
        ({**kind("v1", "Pod", POD_SPEC), **ON}, HOME, f"{ON_PODS}: put it into metadata.annotations"),
        (kind("v1", "Pod", POD_SPEC, **{NETWORKS: "a"}), f"metadata[{NETWORKS}]",
         "read among annotations alone: put it into metadata.annotations"),
        (kind("v1", "Pod", POD_SPEC, **{"berth.dev/inject": "false"}), "metadata[berth.dev/inject]",
         "read among annotations alone"),
        ({**kind("v1", "Pod", POD_SPEC), NETWORKS: "a"}, f"[{NETWORKS}]", f"{ON_PODS}: put it into metadata.annotations"),
        (kind("apps/v1", "Deployment", {"template": template(**{NETWORKS: "a"})}), f"spec.template.metadata[{NETWORKS}]",
         "read among annotations alone: put it into spec.template.metadata.annotations"),
        (kind("apps/v1", "Deployment", {"template": template(), NETWORKS: "a"}), f"spec[{NETWORKS}]", TO_TEMPLATE),
        (kind("v1", "Service", {}, **{"berth.dev/network": "a"}), "metadata[berth.dev/network]",
         "read among annotations alone: put it into metadata.annotations"),
        (kind("serving.knative.dev/v1", "Service", {"template": template()}, annotations={"berth.dev/network": "a"}),
         "metadata.annotations[berth.dev/network]", "read on Services alone, and not on those of serving.knative.dev"),
        (wrapper(replicated(**ON)), f"spec.components[0].template.spec.replicatedJobs[0].template.metadata.{HOME}",
         f"{ON_PODS}: put it into spec.components[0].template.spec.replicatedJobs[0].template.spec.template.metadata"),
        (wrapper({**kind("v1", "Pod", POD_SPEC), **ON}), f"spec.components[0].template.{HOME}",
         f"{ON_PODS}: put it into spec.components[0].template.metadata.annotations"),
    ],
)  # fmt: skip
def test_a_known_key_on_what_stands_around_a_template(obj: dict[str, Any], field: str, message: str) -> None:
    test_a_known_key_in_another_place(obj, field, message)
    (one,) = [each for each in found(obj) if each.reason == "MisplacedKey"]
    assert one.meant == ""


@pytest.mark.parametrize(
    ("obj", "field", "meant"),
    [
        ({**kind("v1", "Pod", POD_SPEC), "labels": {}}, "labels", "metadata.labels"),
        ({**kind("v1", "Service", {}), "annotations": {}}, "annotations", "metadata.annotations"),
        ({**kind("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", {}), "annotations": {}}, "annotations",
         "metadata.annotations"),
        (kind("apps/v1", "Deployment", {"template": {**template(), "labels": {}}}), "spec.template.labels",
         "spec.template.metadata.labels"),
    ],
)  # fmt: skip
def test_what_stands_beside_metadata_is_pointed_into_it(obj: dict[str, Any], field: str, meant: str) -> None:
    assert said(obj) == [("UnknownField", field, meant)]


@pytest.mark.parametrize(
    ("metadata", "field"),
    [({"labels": {"app": 5}}, "metadata.labels[app]"), ({"annotations": {"a/b": True}}, "metadata.annotations[a/b]")],
)
def test_a_label_that_is_no_text_is_named(metadata: dict[str, Any], field: str) -> None:
    assert [(reason, at) for reason, at, _ in said(kind("v1", "Pod", POD_SPEC, **metadata))] == [("WrongType", field)]


def test_a_service_is_pointed_to_its_own_annotation() -> None:
    """Also from that of multus-service."""
    old = kind("v1", "Service", {}, annotations={"k8s.v1.cni.cncf.io/service-network": "a"})
    assert [(reason, meant) for reason, _, meant in said(kind("v1", "Service", {}, **ON), old)] == [
        ("MisplacedKey", "berth.dev/network"),
        ("UnknownKey", "berth.dev/network"),
    ]


@pytest.mark.parametrize(
    "obj",
    [
        kind("v1", "Pod", POD_SPEC, annotations={NETWORKS: "a", "app_policy": "gold"}, labels={"berth.dev/inject": "false"}),
        kind("apps/v1", "Deployment", {"template": template(**ON), "selector": {"matchLabels": {"berth.dev/inject": "x"}}}),
        kind("monitoring.coreos.com/v1", "Prometheus", {"podMetadata": ON}),
        kind("serving.knative.dev/v1", "Service", {"template": template(**ON)}),
        kind("argoproj.io/v1alpha1", "Workflow", ARGO),
        replicated(annotations={"berth.dev/inject-template": "true"}),
        kind("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"driver": {**ON, "template": template()}}),
        kind("v1", "Pod", {**POD_SPEC, "nodeSelector": {"berth.dev/dpu-of-host": "h"}}),
        kind("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", {}, annotations={"berth.dev/inject": "false"}),
        kind("v1", "Namespace", {}, labels={"berth.dev/inject": "false"}),
        kind("v1", "Service", {}, annotations={"berth.dev/network": "a", "berth.dev/selector": "a=b"}),
        wrapper(job_of("Job"), labels={"berth.dev/inject-template": "true"}),
        job_of("Job", annotations={"other_policy": "gold", "berth.dev/inject-template": "true"}),
        kind("workload.universe.nvidia.com/v1alpha1", "WorkloadRule", {"template": template(**ON)}),
    ],
)  # fmt: skip
def test_a_key_in_its_place_is_not_warned_of(obj: dict[str, Any]) -> None:
    assert [one for one in found(obj) if one.reason == "MisplacedKey"] == []


NAD = ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition")


@pytest.mark.parametrize(
    ("obj", "findings"),
    [
        ({**kind(*NAD), "config": "{}"}, [("config", "spec.config")]),
        (kind(*NAD, {"type": "macvlan", "cniVersion": "0.3.1"}),
         [("spec.type", "type in the JSON of spec.config"), ("spec.cniVersion", "cniVersion in the JSON of spec.config")]),
        (kind(*NAD, {"conifg": "{}"}), [("spec.conifg", "config")]),
        (kind(*NAD, {"config": "{}", "resourceName": "a/b"}), [("spec.resourceName", "")]),
        ({**kind(*NAD, annotation={}), "sepc": {}}, [("metadata.annotation", "annotations"), ("sepc", "spec")]),
        (wrapper({**kind(*NAD), "config": "{}"}), [("spec.components[0].template.config", "spec.config")]),
    ],
)  # fmt: skip
def test_fields_of_an_attachment(obj: dict[str, Any], findings: list[tuple[str, str]]) -> None:
    """The API server drops them, and Multus looks for the configuration in the files of the node."""
    assert said(obj) == [("UnknownField", *one) for one in findings]


@pytest.mark.parametrize(
    ("api_version", "name", "field", "meant"),
    [
        ("k8s.cni.cncf.io/v1", "NetworkAttachementDefinition", "kind", "NetworkAttachmentDefinition"),
        ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinitions", "kind", "NetworkAttachmentDefinition"),
        ("k8s.cni.cncf.io/v1", "networkattachmentdefinition", "kind", "NetworkAttachmentDefinition"),
        ("k8s.v1.cni.cncf.io/v1", "NetworkAttachmentDefinition", "apiVersion", "k8s.cni.cncf.io/v1"),
        ("apps/v1", "Deploymnet", "kind", "Deployment"),
        ("app/v1", "Deployment", "apiVersion", "apps/v1"),
        ("v1", "pod", "kind", "Pod"),
        ("workload.codeflare.dev/v1beta2", "AppWraper", "kind", "AppWrapper"),
        ("resource.k8s.io/v1", "ResourceClaimTemplates", "kind", "ResourceClaimTemplate"),
    ],
)
def test_a_misspelt_kind(api_version: str, name: str, field: str, meant: str) -> None:
    assert said(kind(api_version, name)) == [("UnknownKind", field, meant)]


@pytest.mark.parametrize(
    ("api_version", "name"),
    [
        NAD,
        ("v1", "ServiceAccount"), ("v1", "Endpoints"), ("v1", "Event"), ("v1", "Binding"), ("v1", "PersistentVolume"),
        ("apps/v1", "ControllerRevision"), ("resource.k8s.io/v1", "DeviceTaintRule"), ("serving.knative.dev/v1", "Service"),
        ("example.com/v1", "Deploymnet"), ("cluster.x-k8s.io/v1", "Workload"), ("kubevirt.io/v1", "VirtualMachine"),
        ("kueue.x-k8s.io/v1beta1", "Workload"), ("discovery.k8s.io/v1", "EndpointSlice"), ("batch.volcano.sh/v1alpha1", "Job"),
    ],
)  # fmt: skip
def test_kinds_of_others_are_not_misspelt(api_version: str, name: str) -> None:
    assert [one for one in said(kind(api_version, name)) if one[0] == "UnknownKind"] == []


@pytest.mark.parametrize(
    ("api_version", "name", "meant"),
    [
        ("apps/v1beta1", "Deployment", "apps/v1"), ("apps/v1beta2", "StatefulSet", "apps/v1"),
        ("extensions/v1beta1", "Deployment", "apps/v1"), ("extensions/v1beta1", "DaemonSet", "apps/v1"),
        ("extensions/v1beta1", "Ingress", "networking.k8s.io/v1"), ("apps/v2", "ReplicaSet", "apps/v1"),
        ("batch/v1beta1", "CronJob", "batch/v1"), ("batch/v2alpha1", "CronJob", "batch/v1"),
        ("v1", "Deployment", "apps/v1"), ("v1", "Job", "batch/v1"), ("apps/v1", "CronJob", "batch/v1"),
        ("batch/v1", "Pod", "v1"), ("v1beta3", "Pod", "v1"), ("v2", "Service", "v1"), ("V1", "ConfigMap", "v1"),
        ("k8s.cni.cncf.io/v1beta1", "NetworkAttachmentDefinition", "k8s.cni.cncf.io/v1"),
        ("v1", "NetworkAttachmentDefinition", "k8s.cni.cncf.io/v1"),
        ("resource.k8s.io/v1alpha3", "ResourceClaimTemplate", "resource.k8s.io/v1"),
        ("resource.k8s.io/v1alpha2", "ResourceClaim", "resource.k8s.io/v1"),
        ("resource.k8s.io/v2", "DeviceClass", "resource.k8s.io/v1"), ("v1", "ResourceClaim", "resource.k8s.io/v1"),
        ("workload.codeflare.dev/v1beta1", "AppWrapper", "workload.codeflare.dev/v1beta2"),
        ("intel.com/v1", "RmdWorkload", "intel.com/v1alpha1"),
        ("workload.universe.nvidia.com/v1", "WorkloadRule", "workload.universe.nvidia.com/v1alpha1"),
        ("policy/v1beta1", "PodDisruptionBudget", "policy/v1"),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "autoscaling/v2"),
    ],
)  # fmt: skip
def test_a_version_that_no_api_server_serves(api_version: str, name: str, meant: str) -> None:
    """Kubernetes' Deprecated API Migration Guide; of custom kinds their definitions."""
    assert said(kind(api_version, name)) == [("UnknownVersion", "apiVersion", meant)]
    assert said(wrapper(kind(api_version, name)))[0] == (
        "UnknownVersion",
        "spec.components[0].template.apiVersion",
        meant,
    )


@pytest.mark.parametrize(
    ("api_version", "name"),
    [
        ("resource.k8s.io/v1beta1", "ResourceClaim"), ("resource.k8s.io/v1beta2", "DeviceClass"), ("apps/v1", "Deployment"),
        ("autoscaling/v1", "HorizontalPodAutoscaler"), ("resource.k8s.io/v1alpha3", "DeviceTaintRule"),
        ("networking.k8s.io/v1beta1", "IPAddress"), ("scheduling.k8s.io/v1alpha1", "Workload"),
        ("serving.knative.dev/v1beta1", "Service"), ("mcad.ibm.com/v1beta1", "AppWrapper"), ("kubeflow.org/v2beta1", "MPIJob"),
        ("events.k8s.io/v1", "Event"), ("extensions.istio.io/v1alpha1", "WasmPlugin"), ("example.com/v1beta1", "Deployment"),
    ],
)  # fmt: skip
def test_a_version_that_is_served_or_of_others(api_version: str, name: str) -> None:
    assert [one for one in said(kind(api_version, name)) if one[0] == "UnknownVersion"] == []


RDT = "rdt.resources.beta.kubernetes.io"


@pytest.mark.parametrize(
    ("key", "value", "meant"),
    [
        (f"{RDT}/container.ap", "gold", "app"), (f"{RDT}/container.other", "gold", ""),
        ("blockio.resources.beta.kubernetes.io/container.other", "fast", ""),
        ("devices.nri.io/container.other", "[]", ""), ("ulimits.nri.containerd.io/container.other", "[]", ""),
        ("container.apparmor.security.beta.kubernetes.io/other", "unconfined", ""),
        ("berth.dev/resources-container", "apps", "app"), ("berth.dev/resources-container", "other", ""),
        ("other_cache_min", "2", ""), ("other_mba_percentage", "20", ""), ("other_pstate_ratio", "3.0", ""),
    ],
)  # fmt: skip
def test_an_annotation_for_a_container_that_the_pod_lacks(key: str, value: str, meant: str) -> None:
    spec = {"containers": [{"name": "app"}], "initContainers": [{"name": "first"}]}
    field = f"metadata.annotations[{key}]"
    assert said(kind("v1", "Pod", spec, annotations={key: value})) == [("UnknownContainer", field, meant)]
    of_job = kind("batch/v1", "Job", {"template": {"metadata": {"annotations": {key: value}}, "spec": spec}})
    assert said(of_job) == [("UnknownContainer", f"spec.template.{field}", meant)]
    assert said(wrapper(of_job)) == [("UnknownContainer", f"spec.components[0].template.spec.template.{field}", meant)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{RDT}/container.first", "gold"), (f"{RDT}/container.debug", "gold"), (f"{RDT}/pod", "gold"),
        ("berth.dev/resources-container", "first"), ("app_cache_min", "2"), ("restart_policy", "x"),
        ("example.com/other_cache_min", "2"), ("kubectl.kubernetes.io/default-container", "other"),
    ],
)  # fmt: skip
def test_an_annotation_for_a_container_of_the_pod_or_for_none(key: str, value: str) -> None:
    spec = {
        "containers": [{"name": "app"}],
        "initContainers": [{"name": "first"}],
        "ephemeralContainers": [{"name": "debug"}],
    }
    assert said(kind("v1", "Pod", spec, annotations={key: value})) == []
