"""Where Pod templates are in wrapped objects, and how many Pods they make."""

from __future__ import annotations

from typing import Any

import pytest

from app.appwrappers.podsets.inference import PodSet, inferred, pod_sets_of
from app.appwrappers.podsets.paths import PathError, pod_template_at, steps, value_at

INDEX = "workload.codeflare.dev.appwrapper/tas-pod-index-label"
GROUP = "workload.codeflare.dev.appwrapper/tas-sub-group-index-label"
COUNT = "workload.codeflare.dev.appwrapper/tas-sub-group-count"
COMPLETION = {INDEX: "batch.kubernetes.io/job-completion-index"}
REPLICA = {INDEX: "training.kubeflow.org/replica-index"}
PODS: dict[str, Any] = {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
HEAD = {"headGroupSpec": {"template": PODS}}


def job(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": PODS, **spec}}


def wrapped(api_version: str, kind: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}


JOB_SET = wrapped(
    "jobset.x-k8s.io/v1alpha2",
    "JobSet",
    {
        "replicatedJobs": [
            {"name": "a", "replicas": 2, "template": job(parallelism=3, completions=2)},
            {"name": "b", "template": job()},
            {"name": "without a template"},
        ]
    },
)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (wrapped("v1", "Pod", PODS["spec"]), [PodSet("template")]),
        (wrapped("v1", "Service", {}), []),
        (wrapped("apps/v1", "Deployment", job()["spec"]), [PodSet("template.spec.template")]),
        (wrapped("apps/v1", "Deployment", job(replicas=3)["spec"]), [PodSet("template.spec.template", 3)]),
        (wrapped("apps/v1", "StatefulSet", job(replicas=0)["spec"]), [PodSet("template.spec.template", 0)]),
        (wrapped("apps/v1beta1", "Deployment", job()["spec"]), []),
        (wrapped("batch/v1", "Job", job()["spec"]), [PodSet("template.spec.template", 1, COMPLETION)]),
        (
            wrapped("batch/v1", "Job", job(parallelism=2, completions=4)["spec"]),
            [PodSet("template.spec.template", 2, COMPLETION)],
        ),
        (
            wrapped("batch/v1", "Job", job(parallelism=8, completions=4)["spec"]),
            [PodSet("template.spec.template", 4, COMPLETION)],
        ),
        (
            wrapped("batch/v1", "Job", job(parallelism="8")["spec"]),
            [PodSet("template.spec.template", 1, COMPLETION)],
        ),
        (
            JOB_SET,
            [
                PodSet(
                    "template.spec.replicatedJobs[0].template.spec.template",
                    4,
                    COMPLETION | {GROUP: "jobset.sigs.k8s.io/job-index", COUNT: "2"},
                ),
                PodSet(
                    "template.spec.replicatedJobs[1].template.spec.template",
                    1,
                    COMPLETION | {GROUP: "jobset.sigs.k8s.io/job-index", COUNT: "1"},
                ),
            ],
        ),
        (
            wrapped(
                "kubeflow.org/v1",
                "PyTorchJob",
                {"pytorchReplicaSpecs": {"Worker": {"replicas": 3, "template": PODS}, "Master": {"template": PODS}}},
            ),
            [
                PodSet("template.spec.pytorchReplicaSpecs.Master.template", 1, REPLICA),
                PodSet("template.spec.pytorchReplicaSpecs.Worker.template", 3, REPLICA),
            ],
        ),
        (wrapped("ray.io/v1", "RayCluster", HEAD), [PodSet("template.spec.headGroupSpec.template")]),
        (
            wrapped("ray.io/v1", "RayJob", {"rayClusterSpec": HEAD | {"workerGroupSpecs": [job(replicas=1)["spec"]]}}),
            [
                PodSet("template.spec.rayClusterSpec.headGroupSpec.template"),
                PodSet("template.spec.rayClusterSpec.workerGroupSpecs[0].template", 1),
                PodSet("template.spec.submitterPodTemplate", 1),
            ],
        ),
    ],
)
def test_the_pod_sets_of_known_kinds(template: dict[str, Any], expected: list[PodSet]) -> None:
    assert inferred(template) == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            wrapped("apps/v1", "Deployment", job(replicas="3")["spec"]),
            "template.spec.replicas: want an integer, got '3'",
        ),
        (wrapped("apps/v1", "Deployment", job(replicas=True)["spec"]), "want an integer, got True"),
        (wrapped("v1", "Pod", None), "'template' has no spec, as a Pod template has"),
        (wrapped("batch/v1", "Job", {}), "'template.spec' has no field 'template'"),
        (wrapped("ray.io/v1", "RayCluster", {}), "'template.spec' has no field 'headGroupSpec'"),
    ],
)
def test_what_cannot_be_inferred_says_where(template: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        inferred(template)


def test_declared_pod_sets_win_and_have_one_replica_if_they_say_none() -> None:
    component = {
        "podSets": [
            {"path": "template.spec.jobs[0].template", "annotations": {"a": "b"}},
            {"path": "x", "replicas": 0},
        ],
        "template": JOB_SET,
    }
    assert pod_sets_of(component) == [PodSet("template.spec.jobs[0].template", 1, {"a": "b"}), PodSet("x", 0)]
    assert pod_sets_of({"podSets": [], "template": JOB_SET}) == inferred(JOB_SET)


def test_a_status_has_a_pod_set_as_it_was_found() -> None:
    assert PodSet("template", 2).status == {"replicas": 2, "path": "template"}
    assert PodSet("template", 2, {"a": "b"}).status["annotations"] == {"a": "b"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "the first element must be 'template'"),
        ("spec.template", "the first element must be 'template'"),
        ("templateX", "at 'template': want .field or"),
        ("template.", "at 'template': want .field or"),
        ("template..spec", "at 'template': want .field or"),
        ("template.spec.missing", "'template.spec' has no field 'missing'"),
        ("template.kind.name", "'template.kind' is not an object"),
        ("template.spec.replicatedJobs.template", "'template.spec.replicatedJobs' is not an object"),
        ("template.spec.replicatedJobs[0].template[0]", r"replicatedJobs\[0\].template' is not a list"),
        ("template.spec.replicatedJobs[10]", "has 3 elements, and no element 10"),
        ("template.spec.replicatedJobs[-1]", "at 'template.spec.replicatedJobs': want .field or"),
        ("template.spec.replicatedJobs[a10]", "want .field or"),
        ("template.spec.replicatedJobs[1", "want .field or"),
        ("template.spec.replicatedJobs[1]]", r"at 'template.spec.replicatedJobs\[1\]': want .field or"),
    ],
)
def test_a_path_that_leads_to_nothing_says_where_it_ends(path: str, message: str) -> None:
    with pytest.raises(PathError, match=message):
        value_at(JOB_SET, path)


def test_a_path_leads_through_fields_and_elements() -> None:
    assert steps("template.spec.jobs[12][0].template") == ("spec", "jobs", 12, 0, "template")
    assert value_at(JOB_SET, "template") is JOB_SET
    assert pod_template_at(JOB_SET, "template.spec.replicatedJobs[1].template.spec.template") is PODS
    with pytest.raises(PathError, match=r"'template.spec.replicatedJobs\[0\].replicas' is not an object"):
        pod_template_at(JOB_SET, "template.spec.replicatedJobs[0].replicas")
    with pytest.raises(PathError, match=r"'template.metadata' has no spec, as a Pod template has"):
        pod_template_at(JOB_SET, "template.metadata")
