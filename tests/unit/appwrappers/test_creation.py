"""What an API server would refuse of the object of a component, and what would keep it from starting.

What is refused, and what is not, was seen on kube-apiserver 1.37; the end-to-end test asks it again.
"""

from __future__ import annotations

from typing import Any

import pytest

from app.appwrappers.admission.components import component_problems, kind_problem
from app.appwrappers.admission.creation import MOST_VALUES
from app.appwrappers.admission.names import annotation_warnings
from app.appwrappers.model import QUEUE_NAME, queue_of
from app.appwrappers.options import FaultTolerance
from app.definitions import ALL, read_definitions
from app.kinds.fielderrors import MOST_FAULTS
from tests.support.appwrappers import job, pod, pod_spec, service
from tests.support.object_cases import CASES, NO_FIELD, refused_fields

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


HELD = {"spec": pod_spec() | {"schedulingGates": [{"name": "example.com/held"}, {"name": "example.com/more"}]}}
NEVER = {"spec": pod_spec()}
HEAD = {"headGroupSpec": {"template": NEVER}}
QUEUE = "kueue.x-k8s.io/multikueue"


def ray_job(**cluster: Any) -> JSON:
    return other("ray.io/v1", "RayJob", entrypoint="true", submissionMode="HTTPMode", rayClusterSpec=HEAD | cluster)


def cron_job(**spec: Any) -> JSON:
    return other("batch/v1", "CronJob", schedule="@daily", jobTemplate={"spec": {"template": NEVER} | spec})


def job_set(**spec: Any) -> JSON:
    jobs = [{"name": name, "template": {"spec": {"template": NEVER} | more}} for name, more in (("a", {}), ("b", spec))]
    return other("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=jobs)


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
        (job("j", selector={"matchLabels": {"controller-uid": "u"}}), f"{AT}.spec.selector: Invalid value: "),
        (
            job("j", template={"metadata": {"labels": {"controller-uid": "u"}}, "spec": pod_spec()}),
            f'{AT}.spec.template.metadata.labels[controller-uid]: Invalid value: "u": a Job writes it: leave it out',
        ),
        (
            job("j", template={"spec": PODS["spec"]}),
            f'{AT}.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        ),
        (
            job("j", template={"spec": {**PODS["spec"], "restartPolicy": "Always"}}),
            f'{AT}.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        ),
        (
            deployment() | {"spec": {"template": PODS, "selector": {"matchLabels": {"app": "other"}}}},
            f'{AT}.spec.template.metadata.labels: Invalid value: {{"app":"d"}}: `selector` does not match template',
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
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "system:reader"}},
        other("example.com/v1", "Thing", suspend=True),
        job("j", manualSelector=True, selector={"matchLabels": {"app": "d"}}, template=PODS | {"spec": pod_spec()}),
        pod(),
    ],
)
def test_what_creation_takes_is_let_through(template: JSON) -> None:
    assert read(pod("first-pod"), template) == ([], [])


@pytest.mark.parametrize("kind", sorted({obj["kind"] for obj, _ in CASES}))
def test_what_an_api_server_refuses_is_refused_and_nothing_else(kind: str) -> None:
    """With one of the fields that the API server names."""
    for obj, fields in CASES:
        if obj["kind"] == kind:
            refused = refused_fields(obj)
            assert bool(refused) == bool(fields), (obj, refused, fields)
            assert fields in ("", NO_FIELD) or refused & set(fields.split()), (obj, refused, fields)


def test_faults_and_values_of_an_object_are_bounded() -> None:
    """No more faults are looked for than a message shows, and an object with very many values is left to the server."""
    containers = [{"name": "c"}] * 2000
    problems, _ = read(job("j", template={"spec": pod_spec() | {"containers": containers}}), pod("first-pod"))
    assert MOST_FAULTS <= len(problems) < MOST_FAULTS + 10
    arguments = BESIDE | {"args": ["a"] * MOST_VALUES}
    many = job("j", template={"spec": pod_spec() | {"containers": [arguments]}}, backoffLimit=-1)
    assert read(many, pod("first-pod"))[0] == []
    arguments["args"] = ["a"] * (MOST_VALUES // 2)
    (problem,) = read(many, pod("first-pod"))[0]
    assert problem.startswith(f"{AT}.spec.backoffLimit: ")


BESIDE = pod_spec()["containers"][0]


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (job_set(parallelism="2"), "template.spec.parallelism: want an integer"),
        (job_set(backoffLimit=-1), "template.spec.backoffLimit: Invalid value: -1"),
        (job_set(parallelism=4), "template.spec.completions: Required value: when completion mode is Indexed"),
        (job_set(selector={"matchLabels": {"a": "b"}}), "template.spec.selector: Invalid value"),
        (job_set(managedBy="x"), "template.spec.managedBy: Invalid value"),
        (job_set(completionMode="NonIndexed", backoffLimitPerIndex=1), "template.spec.backoffLimitPerIndex: Invalid"),
        (
            job_set(template={"spec": pod_spec() | {"restartPolicy": "Always"}}),
            'template.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        ),
        (
            job_set(template={"spec": pod_spec() | {"containers": [BESIDE, BESIDE]}}),
            "template.spec.template.spec.containers[1].name: Duplicate value",
        ),
        (
            job_set(template={"spec": {"containers": [{"name": "c"}]}}),
            "template.spec.template.spec.containers[0].image",
        ),
        (job_set() | {"metadata": {"name": "x" * 60}}, "name: a Job would be called xxx"),
        (job_set() | {"metadata": {"name": "1x"}}, "name: a Job would be called 1x-b-0"),
        (job_set(completions=1) | {"metadata": {"name": "x" * 54}}, "name: a Pod would be called xxx"),
    ],
)
def test_jobs_of_a_job_set_that_would_be_refused(template: JSON, problem: str) -> None:
    problems, _ = read(template, pod("first-pod"))
    assert any("replicatedJobs[1]" in found and problem.removeprefix("template.") in found for found in problems)


@pytest.mark.parametrize(
    "template",
    [
        job_set(template={"spec": {"containers": [BESIDE]}}),
        job_set(parallelism=4, completions=4),
        job_set(completionMode="NonIndexed", parallelism=4),
        job_set(completions=2, backoffLimitPerIndex=1),
        job_set(template={"spec": {"containers": [BESIDE | {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}),
        job_set() | {"metadata": {"name": "x" * 55}},
    ],
)
def test_jobs_of_a_job_set_that_are_created(template: JSON) -> None:
    assert read(template, pod("first-pod")) == ([], [])


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("kueue.x-k8s.io/v1beta2", "MultiKueueCluster"),
        ("kueue.x-k8s.io/v1beta1", "MultiKueueConfig"),
        ("kueue.x-k8s.io/v1beta2", "ProvisioningRequestConfig"),
        ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"),
        ("gateway.networking.k8s.io/v1", "GatewayClass"),
        ("cert-manager.io/v1", "ClusterIssuer"),
        ("mellanox.com/v1alpha1", "NicClusterPolicy"),
        ("internal.apiserver.k8s.io/v1alpha1", "StorageVersion"),
        ("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest"),
    ],
)
def test_a_kind_without_a_namespace(api_version: str, kind: str) -> None:
    problems, _ = read(other(api_version, kind), pod("p"))
    assert problems == [f"{AT}.kind: want a kind whose objects are in namespaces, got '{kind}': create it by itself"]


def test_the_scope_of_our_own_kinds() -> None:
    for definition in read_definitions(ALL):
        spec = definition["spec"]
        kind = {"apiVersion": f"{spec['group']}/v1", "kind": spec["names"]["kind"]}
        assert bool(kind_problem(kind)) == (spec["scope"] == "Cluster"), kind


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("authentication.k8s.io/v1", "TokenReview"),
        ("authorization.k8s.io/v1", "SubjectAccessReview"),
        ("authorization.k8s.io/v1", "LocalSubjectAccessReview"),
        ("v1", "Binding"),
        ("policy/v1", "Eviction"),
    ],
)
def test_a_kind_of_which_nothing_is_kept(api_version: str, kind: str) -> None:
    (problem,) = read(other(api_version, kind), pod("p"))[0]
    assert problem.startswith(f"{AT}.kind: want a kind whose objects are kept, got '{kind}'")


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "List"),
        ("v1", "PodList"),
        ("apps/v1", "DeploymentList"),
        ("batch/v1", "JobList"),
        ("rbac.authorization.k8s.io/v1", "RoleList"),
        ("jobset.x-k8s.io/v1alpha2", "JobSetList"),
        ("ray.io/v1", "RayJobList"),
        ("example.com/v1", "ThingList"),
    ],
)
def test_a_list_of_objects(api_version: str, kind: str) -> None:
    """With metadata or without, as kubectl and Helm write it."""
    for fields in ({}, {"metadata": {"name": "x"}}, {"metadata": {"resourceVersion": ""}}):
        (problem,) = read({"apiVersion": api_version, "kind": kind, "items": [pod("a")], **fields}, pod("p"))[0]
        assert problem == f"{AT}.kind: want one object, got the list '{kind}': make each of its items a component"


def test_a_kind_that_is_called_a_list() -> None:
    assert read(other("example.com/v1", "AllowList", items=["a"]), pod("p")) == ([], [])


GROUP = {"groupName": "g", "template": NEVER}
UPGRADE = {"gatewayClassName": "g", "intervalSeconds": 1, "stepSizePercent": 10}


def without(fields: JSON, *names: str) -> JSON:
    return {name: value for name, value in fields.items() if name not in names}


def ray_service(**spec: Any) -> JSON:
    return other("ray.io/v1", "RayService", rayClusterConfig=HEAD, **spec)


def upgraded(*missing: str, scaled: bool = True, **options: Any) -> JSON:
    strategy = {
        "type": "NewClusterWithIncrementalUpgrade",
        "clusterUpgradeOptions": without(UPGRADE, *missing) | options,
    }
    cluster = HEAD | ({"enableInTreeAutoscaling": True} if scaled else {})
    return other("ray.io/v1", "RayService", rayClusterConfig=cluster, upgradeStrategy=strategy)


@pytest.mark.parametrize(
    ("template", "fields"),
    [
        (other("kubeflow.org/v1", "PyTorchJob"), ["pytorchReplicaSpecs"]),
        (
            other("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs={"Master": {"replicas": 1}, "Worker": {}}),
            ["pytorchReplicaSpecs.Master.template", "pytorchReplicaSpecs.Worker.template"],
        ),
        (other("kubeflow.org/v1", "TFJob", tfReplicaSpecs={"Worker": {}}), ["tfReplicaSpecs.Worker.template"]),
        (other("kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs={"Worker": {}}), ["mpiReplicaSpecs.Worker.template"]),
        (
            other(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                replicatedJobs=[{"name": "a"}, {"template": {"spec": {"template": NEVER}}}],
            ),
            ["replicatedJobs[0].template", "replicatedJobs[1].name"],
        ),
        (
            job_set() | {"spec": job_set()["spec"] | {"successPolicy": {}, "startupPolicy": {}}},
            ["startupPolicy.startupPolicyOrder", "successPolicy.operator"],
        ),
        (
            job_set() | {"spec": {"replicatedJobs": job_set()["spec"]["replicatedJobs"][:1] * 2}},
            ["replicatedJobs[1].name"],
        ),
        *(
            (build(HEAD | {"workerGroupSpecs": [GROUP, without(GROUP, field)]}), [f"{path}workerGroupSpecs[1].{field}"])
            for build, path in (
                (lambda cluster: other("ray.io/v1", "RayCluster", **cluster), ""),
                (lambda cluster: ray_job(**cluster), "rayClusterSpec."),
                (lambda cluster: other("ray.io/v1", "RayService", rayClusterConfig=cluster), "rayClusterConfig."),
            )
            for field in ("groupName", "template")
        ),
        (other("ray.io/v1", "RayService"), ["rayClusterConfig"]),
        (other("ray.io/v1", "RayService", rayClusterConfig={}), ["rayClusterConfig.headGroupSpec"]),
        (
            other("ray.io/v1", "RayService", rayClusterConfig={"headGroupSpec": {}}),
            ["rayClusterConfig.headGroupSpec.template"],
        ),
        (
            other("ray.io/v1", "RayCluster", gcsFaultToleranceOptions={}, **HEAD),
            ["gcsFaultToleranceOptions.redisAddress"],
        ),
        *((upgraded(field), [f"upgradeStrategy.clusterUpgradeOptions.{field}"]) for field in UPGRADE),
        (
            ray_service(upgradeStrategy={"clusterUpgradeOptions": {}, "type": "None"}),
            [f"upgradeStrategy.clusterUpgradeOptions.{field}" for field in UPGRADE],
        ),
    ],
)
def test_fields_without_which_a_definition_or_webhook_refuses_an_object(template: JSON, fields: list[str]) -> None:
    """A real API server with the definitions of KubeRay 1.6.2 and JobSet 0.12 names the same fields."""
    problems, _ = read(template, pod("first-pod"))
    assert sorted(problem.partition(": ")[0] for problem in problems) == sorted(
        f"{AT}.spec.{field}" for field in fields
    )


@pytest.mark.parametrize(
    ("template", "fields"),
    [
        (upgraded(), []),
        (upgraded(maxSurgePercent=0, stepSizePercent=100), []),
        (
            ray_service(
                upgradeStrategy={"type": "NewCluster", "clusterUpgradeOptions": UPGRADE | {"stepSizePercent": 999}}
            ),
            [],
        ),
        (upgraded(scaled=False), ["rayClusterConfig.enableInTreeAutoscaling"]),
        (upgraded(maxSurgePercent=101), ["upgradeStrategy.clusterUpgradeOptions.maxSurgePercent"]),
        (upgraded(maxSurgePercent=-1), ["upgradeStrategy.clusterUpgradeOptions.maxSurgePercent"]),
        (upgraded(stepSizePercent=101), ["upgradeStrategy.clusterUpgradeOptions.stepSizePercent"]),
        (upgraded(intervalSeconds=0), ["upgradeStrategy.clusterUpgradeOptions.intervalSeconds"]),
        (upgraded(gatewayClassName=""), ["upgradeStrategy.clusterUpgradeOptions.gatewayClassName"]),
    ],
)
def test_an_incremental_upgrade_that_kuberay_may_refuse_is_warned_of(template: JSON, fields: list[str]) -> None:
    """KubeRay looks at it where a feature is on, which it is not by default: so it is no problem."""
    problems, warnings = read(template, pod("first-pod"))
    assert problems == []
    assert [warning.partition(": ")[0] for warning in warnings] == [f"{AT}.spec.{field}" for field in fields]


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
        (cron_job() | {"spec": cron_job()["spec"] | {"suspend": True}}, "spec.suspend"),
        (other("jobset.x-k8s.io/v1alpha2", "JobSet", suspend=True), "spec.suspend"),
        (other("trainer.kubeflow.org/v1alpha1", "TrainJob", suspend=True), "spec.suspend"),
        (other("ray.io/v1alpha1", "RayCluster", suspend=True), "spec.suspend"),
        (
            other("ray.io/v1alpha1", "RayJob", suspend=True, shutdownAfterJobFinishes=True, rayClusterSpec={}),
            "spec.suspend",
        ),
        (other("ray.io/v1", "RayService", rayClusterConfig=HEAD | {"suspend": True}), "spec.rayClusterConfig.suspend"),
        (
            other("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs={}, runPolicy={"suspend": True}),
            "spec.runPolicy.suspend",
        ),
        (
            other("kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs={}, runPolicy={"suspend": True}),
            "spec.runPolicy.suspend",
        ),
        (deployment(paused=True), "spec.paused"),
    ],
)
def test_an_object_that_makes_no_pods_is_warned_of(template: JSON, path: str) -> None:
    problems, warnings = read(template, pod("first-pod"))
    assert problems == []
    (warning,) = warnings
    assert warning.startswith(f"{AT}.{path}: the {template['kind']} is ")
    assert "leave it out" in warning


OTHER = "another.example.com/controller"


@pytest.mark.parametrize(
    ("template", "warning"),
    [
        (ray_job(suspend=True), "spec.rayClusterSpec.suspend: the RayCluster of the RayJob is suspended"),
        (ray_job(managedBy=QUEUE), f"spec.rayClusterSpec.managedBy: the controller '{QUEUE}' has it, so ray.io/"),
        (
            other(
                "ray.io/v1", "RayCronJob", schedule="@daily", jobTemplate={"rayClusterSpec": HEAD | {"suspend": True}}
            ),
            "spec.jobTemplate.rayClusterSpec.suspend: the RayCluster of each run is suspended",
        ),
        (cron_job(suspend=True), "spec.jobTemplate.spec.suspend: the Job of each run is suspended"),
        (cron_job(parallelism=0), "spec.jobTemplate.spec.parallelism: the Job makes no Pods and does not end"),
        (job("j", parallelism=0), "spec.parallelism: the Job makes no Pods and does not end"),
        (
            job_set(parallelism=0, completions=1),
            "spec.replicatedJobs[1].template.spec.parallelism: the Job makes no Pods",
        ),
        (job("j", managedBy=OTHER), f"spec.managedBy: the controller '{OTHER}' has it, so kubernetes.io/job-"),
        (job_set(managedBy=OTHER), f"spec.replicatedJobs[1].template.spec.managedBy: the controller '{OTHER}'"),
        (
            other("jobset.x-k8s.io/v1alpha2", "JobSet", managedBy=QUEUE),
            f"spec.managedBy: the controller '{QUEUE}' has it, so jobset.sigs.k8s.io/jobset-controller makes no Pods",
        ),
        (
            other("ray.io/v1", "RayCluster", headGroupSpec={"template": NEVER}, managedBy=QUEUE),
            "spec.managedBy: the controller",
        ),
        (
            other("kubeflow.org/v1", "TFJob", tfReplicaSpecs={}, runPolicy={"managedBy": QUEUE}),
            "spec.runPolicy.managedBy: the controller",
        ),
        (other("trainer.kubeflow.org/v1alpha1", "TrainJob", managedBy=QUEUE), "spec.managedBy: the controller"),
        (deployment(replicas=0), "spec.replicas: the Deployment makes no Pods until it is scaled"),
        (other("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", replicas=0), "spec.replicas: the LeaderWorkerSet"),
        (other("argoproj.io/v1alpha1", "Workflow", suspend=True), "spec.suspend: the Workflow is suspended"),
        (other("kubevirt.io/v1", "VirtualMachine", running=False), "spec.running: the VirtualMachine does not start"),
        (
            other("kubevirt.io/v1", "VirtualMachine", runStrategy="Halted"),
            "spec.runStrategy: the VirtualMachine does not start by itself",
        ),
        (
            job("j", template=HELD),
            "spec.template.spec.schedulingGates: the Pods are not scheduled while they have 'example.com/held' and 1 more",
        ),
        (pod("p") | {"spec": HELD["spec"]}, "spec.schedulingGates: the Pods are not scheduled while they have"),
        (job_set(template=HELD), "spec.replicatedJobs[1].template.spec.template.spec.schedulingGates: the Pods"),
        (cron_job(template=HELD), "spec.jobTemplate.spec.template.spec.schedulingGates: the Pods"),
        (other("example.com/v1", "Thing", worker=HELD), "spec.worker.spec.schedulingGates: the Pods are not"),
    ],
)
def test_what_stops_an_object_or_its_pods_is_warned_of(template: JSON, warning: str) -> None:
    problems, warnings = read(template, pod("first-pod"))
    assert problems == []
    (found,) = warnings
    assert found.startswith(f"{AT}.{warning}")
    assert "leave it out" in found or ": want " in found


@pytest.mark.parametrize(
    "template",
    [
        job("j", suspend=False),
        job("j", managedBy="kubernetes.io/job-controller"),
        job("j", parallelism=0, completions=0),
        job("j", template={"spec": pod_spec() | {"schedulerName": "example.com-scheduler", "schedulingGates": []}}),
        job_set(suspend=True),  # JobSet resumes the Jobs that it makes
        job_set(managedBy="kubernetes.io/job-controller"),
        ray_job(suspend=False, managedBy="ray.io/kuberay-operator"),
        other(
            "kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs={}, runPolicy={"managedBy": "kubeflow.org/mpi-operator"}
        ),
        other("kubevirt.io/v1", "VirtualMachine", runStrategy="Always"),
        other("example.com/v1", "Job", suspend=True, parallelism=0),
        deployment(replicas=1),
    ],
)
def test_what_runs_is_not_warned_of(template: JSON) -> None:
    assert read(template, pod("first-pod")) == ([], [])


def test_an_object_that_is_resumed_is_not_warned_of() -> None:
    assert read(job("j", suspend=False)) == ([], [])
    assert read(other("kubeflow.org/v1", "TFJob", tfReplicaSpecs={}, runPolicy=None), pod("p")) == ([], [])


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
