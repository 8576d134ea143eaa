"""What an API server would refuse of the object of a component, and what would keep it from starting.

What is refused, and what is not, was seen on kube-apiserver 1.37; the end-to-end test asks it again.
"""

from __future__ import annotations

from typing import Any

import pytest

from app.appwrappers.admission.components import component_problems
from app.appwrappers.admission.names import annotation_warnings
from app.appwrappers.config import FaultTolerance
from app.appwrappers.model import QUEUE_NAME, queue_of
from tests.support.appwrappers import job, pod, pod_spec, service

JSON = dict[str, Any]
AT = "spec.components[0].template"
PODS = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def read(*templates: JSON, infos: list[JSON] | None = None) -> tuple[list[str], list[str]]:
    components = [{"template": one} | ({"podSetInfos": infos} if infos else {}) for one in templates]
    warnings: list[str] = []
    found = component_problems({"components": components}, name="aw", namespace="ns", most=18, warnings=warnings)
    return list(found), warnings


def other(api_version: str, kind: str, **spec: Any) -> JSON:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def deployment(**spec: Any) -> JSON:
    return other("apps/v1", "Deployment", template=PODS, selector={"matchLabels": {"app": "d"}}, **spec)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (pod("p", resourceVersion="5"), f"{AT}.metadata.resourceVersion: an API server refuses it"),
        (pod("p", resourceVersion=5), f"{AT}.metadata.resourceVersion: an API server refuses it"),
        (service("s") | {"metadata": {"name": "s", "resourceVersion": True}}, f"{AT}.metadata.resourceVersion: an API"),
        (pod("Bad_Name"), f"{AT}.metadata.name: Invalid value: "),
        (pod(generateName="Bad_"), f"{AT}.metadata.generateName: Invalid value: "),
        (pod("x" * 254), f"{AT}.metadata.name: Invalid value: "),
        (service("a.b"), f"{AT}.metadata.name: Invalid value: "),
        (service("s" * 64), f"{AT}.metadata.name: Invalid value: "),
        (deployment() | {"kind": "StatefulSet", "metadata": {"name": "a.b"}}, f"{AT}.metadata.name: Invalid value: "),
        (pod("p", labels={"a": "b c"}), f"{AT}.metadata.labels: Invalid value: "),
        (pod("p", annotations={"a b": "c"}), f"{AT}.metadata.annotations: Invalid value: "),
        (pod("p", annotations={"a": 1}), f"{AT}.metadata.annotations"),
        (pod("p", creationTimestamp="yesterday"), f"{AT}.metadata.creationTimestamp: "),
        (pod("p", finalizers=["bad"]), f"{AT}.metadata.finalizers[0]: Invalid value: "),
        (pod("p", ownerReferences=[{"kind": "Job", "name": "x", "uid": "u"}]), f"{AT}.metadata.ownerReferences."),
        (other("v1", "Namespace"), f"{AT}.kind: want a kind whose objects are in namespaces, got 'Namespace'"),
        (other("rbac.authorization.k8s.io/v1", "ClusterRole"), f"{AT}.kind: want a kind whose objects"),
        (other("storage.k8s.io/v1", "StorageClass"), f"{AT}.kind: want a kind whose objects"),
        (other("apiextensions.k8s.io/v1", "CustomResourceDefinition"), f"{AT}.kind: want a kind whose objects"),
        (other("kueue.x-k8s.io/v1beta1", "ClusterQueue"), f"{AT}.kind: want a kind whose objects"),
        (job("j", selector={"matchLabels": {"controller-uid": "u"}}), f"{AT}.spec.selector: a Job gets it when"),
        (
            job("j", template={"metadata": {"labels": {"controller-uid": "u"}}, "spec": pod_spec()}),
            f"{AT}.spec.template.metadata.labels[controller-uid]: a Job writes it: leave it out",
        ),
        (
            job("j", template={"spec": PODS["spec"]}),
            f"{AT}.spec.template.spec.restartPolicy: want Never or OnFailure in a Job, got 'None'",
        ),
        (
            job("j", template={"spec": {**PODS["spec"], "restartPolicy": "Always"}}),
            f"{AT}.spec.template.spec.restartPolicy: want Never or OnFailure in a Job, got 'Always'",
        ),
        (
            deployment() | {"spec": {"template": PODS, "selector": {"matchLabels": {"app": "other"}}}},
            f"{AT}.spec.selector.matchLabels[app]: the Pod template has not this label: want 'other' in",
        ),
    ],
)
def test_what_creation_refuses_is_refused_with_its_field(template: JSON, problem: str) -> None:
    problems, _ = read(pod("first-pod"), template)
    (found,) = problems
    assert found.replace("components[1]", "components[0]").startswith(problem)


@pytest.mark.parametrize(
    "template",
    [
        pod("p", resourceVersion="", uid="u", creationTimestamp="2026-01-01T00:00:00Z", generation=7),
        pod("p", creationTimestamp=None, selfLink="/x", deletionTimestamp="2026-01-01T00:00:00Z"),
        pod("p", managedFields=[{"manager": "kubectl", "operation": "Update"}], deletionGracePeriodSeconds=5),
        pod("p") | {"status": {"phase": "Succeeded"}},
        pod("p", finalizers=["example.com/held"]),
        service("s") | {"metadata": {"name": "s", "labels": {"a": 1}}},
        pod("p" * 253),
        deployment() | {"metadata": {"name": "a.b"}},
        other("rbac.authorization.k8s.io/v1", "Role") | {"metadata": {"name": "system:reader"}},
        other("example.com/v1", "Thing", suspend=True),
        job("j", manualSelector=True, selector={"matchLabels": {"a": "b"}}),
        pod(),
    ],
)
def test_what_creation_takes_is_let_through(template: JSON) -> None:
    assert read(pod("first-pod"), template) == ([], [])


def test_one_object_twice() -> None:
    """The version makes no difference, the kind and the group do."""
    assert read(pod("x"), service("x"), pod("y"))[0] == []
    problems, _ = read(pod("x"), other("batch/v1", "Thing"), other("batch/v2", "Thing"), pod("x"))
    assert problems == [
        f"spec.components[{index}].template.metadata.name: spec.components[{first}] is the {kind} 'x' already: want "
        "another name, or generateName"
        for index, first, kind in ((2, 1, "Thing"), (3, 0, "Pod"))
    ]


@pytest.mark.parametrize(
    ("template", "path"),
    [
        (job("j", suspend=True), "spec.suspend"),
        (other("batch/v1", "CronJob", suspend=True), "spec.suspend"),
        (other("jobset.x-k8s.io/v1alpha2", "JobSet", suspend=True), "spec.suspend"),
        (other("trainer.kubeflow.org/v1alpha1", "TrainJob", suspend=True), "spec.suspend"),
        (other("ray.io/v1alpha1", "RayCluster", suspend=True), "spec.suspend"),
        (other("ray.io/v1alpha1", "RayJob", suspend=True), "spec.suspend"),
        (other("ray.io/v1", "RayService", rayClusterConfig={"suspend": True}), "spec.rayClusterConfig.suspend"),
        (other("kubeflow.org/v1", "PyTorchJob", runPolicy={"suspend": True}), "spec.runPolicy.suspend"),
        (other("kubeflow.org/v2beta1", "MPIJob", runPolicy={"suspend": True}), "spec.runPolicy.suspend"),
        (deployment(paused=True), "spec.paused"),
    ],
)
def test_an_object_that_makes_no_pods_is_warned_of(template: JSON, path: str) -> None:
    problems, warnings = read(template, pod("first-pod"))
    assert problems == []
    (warning,) = warnings
    assert warning.startswith(f"{AT}.{path}: the {template['kind']} is ")
    assert "leave it out" in warning


def test_an_object_that_is_resumed_is_not_warned_of() -> None:
    assert read(job("j", suspend=False)) == ([], [])
    assert read(other("kubeflow.org/v1", "TFJob", runPolicy=None), pod("p")) == ([], [])


def test_more_pod_set_infos_than_pod_sets() -> None:
    _, warnings = read(job("j"), infos=[{}, {"labels": {"a": "b"}}])
    assert warnings == ["spec.components[0].podSetInfos: 2 for 1 podSet: those after the first 1 are not used"]
    assert read(job("j"), infos=[{}])[1] == []


def test_the_queue_of_v05_is_an_annotation() -> None:
    """The label counts where there is one, even an empty one."""
    annotated = {"metadata": {"annotations": {QUEUE_NAME: "user-queue"}}}
    assert queue_of(annotated) == "user-queue"
    assert queue_of({"metadata": {"labels": {QUEUE_NAME: "q"}} | annotated["metadata"]}) == "q"
    assert queue_of({"metadata": {"labels": {QUEUE_NAME: ""}} | annotated["metadata"]}) == ""
    (warning,) = annotation_warnings({QUEUE_NAME: "user-queue"}, FaultTolerance())
    assert warning.startswith(f"metadata.annotations[{QUEUE_NAME}]: the form of AppWrapper v0.5: want a label")


def test_an_annotation_with_the_domain_of_the_labels_is_told() -> None:
    (warning,) = annotation_warnings({"workload.codeflare.dev/retryLimit": "1"}, FaultTolerance())
    assert warning.endswith("has no meaning; is workload.codeflare.dev.appwrapper/retryLimit meant?")
