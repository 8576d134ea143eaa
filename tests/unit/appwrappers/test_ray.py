"""What KubeRay adds to what a user writes: the Pod that submits a job. Counts are in `test_kueue.py`, by KubeRay's code."""

from __future__ import annotations

from copy import deepcopy

import pytest

from app.appwrappers.admission.components import component_problems
from app.appwrappers.admission.templates import makes_pods, uncounted
from app.appwrappers.podsets.inference import made_at_once, pod_sets_of, put_template, written_templates
from app.appwrappers.podsets.paths import PathError
from app.appwrappers.sizes import component_status
from app.wire import JSON
from tests.support.kueue_cases import cluster_spec, job, ray_cluster, ray_job, template

HEAD, WORKERS = "template.spec.rayClusterSpec.headGroupSpec.template", "template.spec.rayClusterSpec.workerGroupSpecs"
SUBMITTER = "template.spec.submitterPodTemplate"
RAY_JOB = ray_job(cluster_spec({"replicas": 2}))
SENT = ray_job(None, clusterSelector={"ray.io/cluster": "c"})


def test_the_template_of_the_submitter_is_put_where_it_can_be_marked() -> None:
    """Kueue does the same, so that the Pod runs where the flavor says."""
    made = deepcopy(RAY_JOB)
    put_template(made, SUBMITTER)["spec"]["nodeSelector"] = {"zone": "a"}
    assert made["spec"]["submitterPodTemplate"]["spec"] == {
        "containers": [
            {
                "name": "ray-job-submitter",
                "image": "i:1",
                "resources": {
                    "requests": {"cpu": "500m", "memory": "200Mi"},
                    "limits": {"cpu": "1", "memory": "1Gi"},
                },
            }
        ],
        "restartPolicy": "Never",
        "nodeSelector": {"zone": "a"},
    }
    again = put_template(made, SUBMITTER)
    assert again is made["spec"]["submitterPodTemplate"]


@pytest.mark.parametrize(
    "obj", [SENT, ray_job(cluster_spec(), submissionMode="HTTPMode"), ray_cluster(), job(template())]
)
def test_none_is_put_where_kuberay_makes_no_such_pod(obj: JSON) -> None:
    with pytest.raises(PathError):
        put_template(deepcopy(obj), SUBMITTER)


def test_the_templates_that_a_user_has_written_are_those_that_stand_there() -> None:
    written = [path for path, _ in written_templates({"template": RAY_JOB})]
    assert written == [HEAD, f"{WORKERS}[0].template"]
    own = ray_job(cluster_spec(), submitterPodTemplate=template())
    assert [path for path, _ in written_templates({"template": own})] == [HEAD, SUBMITTER]


def test_the_submitter_is_not_waited_for_before_the_cluster_is_ready() -> None:
    component = {"template": RAY_JOB}
    assert [pod_set.replicas for pod_set in pod_sets_of(component)] == [1, 2, 1]
    assert made_at_once(component_status(component)) == [1, 2, 0]
    assert made_at_once(component_status({"template": ray_cluster({"replicas": 2})})) == [1, 2]


def test_pod_sets_as_appwrapper_v1_2_has_them_are_taken_and_the_submitter_is_counted() -> None:
    declared = [{"path": HEAD}, {"path": f"{WORKERS}[0].template", "replicas": 2}]
    component = {"template": RAY_JOB, "podSets": declared}
    assert problems(component) == []
    assert [pod_set.path for pod_set in pod_sets_of(component)] == [HEAD, f"{WORKERS}[0].template", SUBMITTER]
    assert problems({"template": RAY_JOB, "podSets": [*declared, {"path": SUBMITTER}]}) == []
    (problem,) = problems({"template": RAY_JOB, "podSets": [declared[0], declared[1] | {"replicas": 1}]})
    assert "replica count 1 differs from inferred count 2" in problem


def test_a_job_for_the_cluster_of_another_object_counts_no_pods_and_says_so() -> None:
    spec = {"components": [{"template": ray_cluster()}, {"template": SENT}]}
    assert list(component_problems(spec, name="w", namespace="n", most=18)) == []
    (warning,) = uncounted(spec)
    assert warning.startswith("spec.components[1]: the Pod that submits the job to another cluster is not counted")
    assert makes_pods({"template": SENT})
    by_http = SENT | {"spec": SENT["spec"] | {"submissionMode": "HTTPMode"}}
    assert list(uncounted({"components": [{"template": by_http}]})) == []
    assert not makes_pods({"template": by_http})
    counted = SENT | {"spec": SENT["spec"] | {"submitterPodTemplate": template()}}
    component = {"template": counted, "podSets": [{"path": SUBMITTER}]}
    assert problems(component) == []
    assert list(uncounted({"components": [component]})) == []


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        ({"replicas": "2"}, "workerGroupSpecs[0].replicas: want an integer, got '2'"),
        ({"numOfHosts": True}, "workerGroupSpecs[0].numOfHosts: want an integer, got True"),
        ({"minReplicas": 1.5}, "workerGroupSpecs[0].minReplicas: want an integer, got 1.5"),
        ({"replicas": 1, "numOfHosts": -1}, "workerGroupSpecs[0].template: want 0 replicas or more, got -1"),
        ({"replicas": 1, "numOfHosts": -1}, "workerGroupSpecs[0].numOfHosts: want 0 or more, got -1"),
        ({"replicas": 0, "numOfHosts": -1}, "workerGroupSpecs[0].numOfHosts: want 0 or more, got -1"),
        ({"replicas": -2}, "workerGroupSpecs[0].replicas: want 0 or more, got -2"),
        ({"replicas": -2, "minReplicas": -3, "numOfHosts": -2}, "workerGroupSpecs[0].replicas: want 0 or more, got -2"),
        ({"minReplicas": -3, "numOfHosts": -2}, "workerGroupSpecs[0].minReplicas: want 0 or more, got -3"),
        ({"suspend": True, "numOfHosts": -2}, "workerGroupSpecs[0].numOfHosts: want 0 or more, got -2"),
    ],
)
def test_a_count_of_no_number_is_refused_with_its_field(group: JSON, problem: str) -> None:
    assert any(problem in found for found in problems({"template": ray_cluster(group)}))


def test_a_job_for_another_cluster_alone_has_ways_out() -> None:
    (found,) = problems({"template": SENT})
    assert found.startswith("spec.components: components contains no podspecs: want at least one podSet: the job of a")
    assert "take the RayCluster into the same AppWrapper" in found
    (found,) = problems({"template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}})
    assert found.endswith("want at least one podSet")


def test_a_cluster_that_is_not_used_is_warned_of() -> None:
    both = SENT | {"spec": SENT["spec"] | {"rayClusterSpec": cluster_spec()}}
    warnings: list[str] = []
    spec = {"components": [{"template": ray_cluster()}, {"template": both}]}
    assert list(component_problems(spec, name="w", namespace="n", most=18, warnings=warnings)) == []
    (warning,) = warnings
    assert warning.startswith(
        "spec.components[1].template.spec.rayClusterSpec: not used, as the job runs in the cluster"
    )


def problems(component: JSON) -> list[str]:
    return list(component_problems({"components": [component]}, name="w", namespace="n", most=18))
