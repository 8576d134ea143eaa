"""What keeps the controller of a wrapped object from making its Pods, and Pods from being scheduled. Pure.

Facts: of Kubernetes 1.37, JobSet 0.12 (which resumes the Jobs that it makes), Kubeflow's training operator 1.9.3,
trainer 2.2.1 and MPI operator 0.8.2, KubeRay 1.6.2 (a RayJob copies `rayClusterSpec`), and of the API pages of Argo
Workflows, Spark operator, LeaderWorkerSet and KubeVirt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from app.appwrappers.admission.templates import templates_in
from app.appwrappers.podsets.paths import elements_at, found_at
from app.appwrappers.podsets.ray import runs_elsewhere
from app.numbers import worded
from app.pace import step
from app.text import quoted, several
from app.wire import JSON

_MOST_GATES = 8
"""Of one component that are named, since a Pod may have many."""


class _Stop(NamedTuple):
    """A value that keeps a controller from making Pods, by its path below `template.`; `[*]` are all of a list.

    `then` says what follows and what would be right; `{value}` in it is the value, `{kind}` that of the component.
    """

    path: str
    stops: Callable[[Any], bool]
    then: str


def _suspended(path: str, what: str = "{kind}") -> _Stop:
    then = (
        f"the {what} is suspended and makes no Pods until this is false, and neither Berth nor Kueue changes it: leave "
        "it out (the AppWrapper has spec.suspend)"
    )
    return _Stop(path, lambda value: value is True, then)


def _none(
    path: str, then: str = "the {kind} makes no Pods until it is scaled, and Kueue does not count these"
) -> _Stop:
    return _Stop(path, lambda value: value == 0 and not isinstance(value, bool), f"{then}: want 1 or more")


def _managed(path: str, *own: str) -> _Stop:
    """`own` are the controllers that make Pods of it; of an MPIJob another one for each version."""
    then = (
        f"the controller {{value}} has it, so {' or '.join(own)} makes no Pods of it, and Kueue hands over no part of "
        f"an AppWrapper: leave it out, or want {' or '.join(map(quoted, own))}"
    )
    return _Stop(path, lambda value: isinstance(value, str) and value not in ("", *own), then)


def _job(spec: str) -> tuple[_Stop, ...]:
    then = "the Job makes no Pods and does not end until this is raised, which neither Berth nor Kueue does"
    return (_none(f"{spec}.parallelism", then), _managed(f"{spec}.managedBy", "kubernetes.io/job-controller"))


def _ray(spec: str, what: str) -> tuple[_Stop, ...]:
    return (_suspended(f"{spec}.suspend", what), _managed(f"{spec}.managedBy", "ray.io/kuberay-operator"))


_RAY_JOB = "spec.jobTemplate"
_KUBEFLOW = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "MXJob")
_SCALED = (_none("spec.replicas"),)
_STOPS: dict[tuple[str, str], tuple[_Stop, ...]] = {
    ("batch", "Job"): (_suspended("spec.suspend"), *_job("spec")),
    ("batch", "CronJob"): (
        _suspended("spec.suspend"),
        _suspended("spec.jobTemplate.spec.suspend", "Job of each run"),
        *_job("spec.jobTemplate.spec"),
    ),
    ("apps", "Deployment"): (
        _Stop(
            "spec.paused",
            lambda value: value is True,
            "the Deployment is paused and makes no Pods until this is false, and neither Berth nor Kueue changes it: "
            "leave it out",
        ),
        *_SCALED,
    ),
    ("apps", "StatefulSet"): _SCALED,
    ("apps", "ReplicaSet"): _SCALED,
    ("", "ReplicationController"): _SCALED,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _SCALED,
    ("jobset.x-k8s.io", "JobSet"): (
        _suspended("spec.suspend"),
        _managed("spec.managedBy", "jobset.sigs.k8s.io/jobset-controller"),
        *_job("spec.replicatedJobs[*].template.spec"),
    ),
    ("trainer.kubeflow.org", "TrainJob"): (
        _suspended("spec.suspend"),
        _managed("spec.managedBy", "trainer.kubeflow.org/trainjob-controller"),
    ),
    **{
        ("kubeflow.org", kind): (
            _suspended("spec.runPolicy.suspend"),
            _managed("spec.runPolicy.managedBy", "kubeflow.org/training-operator", *others),
        )
        for kind, others in (*((kind, ()) for kind in _KUBEFLOW), ("MPIJob", ("kubeflow.org/mpi-operator",)))
    },
    ("kubeflow.org", "JAXJob"): (_suspended("spec.runPolicy.suspend"),),  # its controller reads no managedBy
    ("ray.io", "RayCluster"): _ray("spec", "RayCluster"),
    ("ray.io", "RayJob"): (*_ray("spec", "RayJob"), *_ray("spec.rayClusterSpec", "RayCluster of the RayJob")),
    ("ray.io", "RayCronJob"): (
        _suspended("spec.suspend"),
        *_ray(_RAY_JOB, "RayJob of each run"),
        *_ray(f"{_RAY_JOB}.rayClusterSpec", "RayCluster of each run"),
    ),
    ("ray.io", "RayService"): (
        _managed("spec.managedBy", "ray.io/kuberay-operator"),
        *_ray("spec.rayClusterConfig", "RayService"),
    ),
    ("argoproj.io", "Workflow"): (_suspended("spec.suspend"),),
    ("argoproj.io", "CronWorkflow"): (
        _suspended("spec.suspend"),
        _suspended("spec.workflowSpec.suspend", "Workflow of each run"),
    ),
    ("sparkoperator.k8s.io", "SparkApplication"): (_suspended("spec.suspend"),),
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): (
        _suspended("spec.suspend"),
        _suspended("spec.template.suspend", "SparkApplication of each run"),
    ),
    ("kubevirt.io", "VirtualMachine"): (
        _Stop(
            "spec.runStrategy",
            lambda value: value in ("Halted", "Manual"),
            "the VirtualMachine does not start by itself, and neither Berth nor Kueue starts it: want Always, "
            "RerunOnFailure or Once",
        ),
        _Stop(
            "spec.running",
            lambda value: value is False,
            "the VirtualMachine does not start, and neither Berth nor Kueue starts it: want true",
        ),
    ),
}
"""By group and kind. A Job with completions 0 ends at once, whatever its parallelism."""


def stop_warnings(template: JSON, path: str) -> Iterator[str]:
    """What would keep the wrapped object, which stands at `path`, from making its Pods, or these from running."""
    group, kind = str(template["apiVersion"]).rpartition("/")[0], template["kind"]
    for stop in _STOPS.get((group, kind), ()):
        for where in _places(template, f"template.{stop.path}"):
            value = found_at(template, where)
            if stop.stops(value) and not _ends_at_once(template, where):
                then = stop.then.replace("{kind}", kind).replace("{value}", quoted(str(value)))
                yield f"{path}.{where.removeprefix('template.')}: {then}"
    if runs_elsewhere(template) and found_at(template, "template.spec.rayClusterSpec") is not None:
        yield f"{path}.spec.rayClusterSpec: not used, as the job runs in the cluster of clusterSelector: leave one out"
    yield from _gates(template, path)


def _places(template: JSON, path: str) -> Iterator[str]:
    """The paths that a pattern stands for."""
    head, star, rest = path.partition("[*]")
    if not star:
        yield head
    for prefix in elements_at(template, head) if star else ():
        step()
        yield from _places(template, prefix + rest)


def _ends_at_once(template: JSON, where: str) -> bool:
    spec, _, field = where.rpartition(".")
    return field == "parallelism" and found_at(template, f"{spec}.completions") == 0


def _gates(template: JSON, path: str) -> Iterator[str]:
    """A warning for each Pod template whose Pods are not scheduled until another controller lets them."""
    named = 0
    for where in templates_in(template, "template"):
        gates = found_at(template, f"{where}.spec.schedulingGates")
        if not isinstance(gates, list) or not gates:
            continue
        named += 1
        if named > _MOST_GATES:
            yield f"{path}: more Pod templates have schedulingGates"
            return
        first = gates[0].get("name") if isinstance(gates[0], dict) else gates[0]
        name = worded(first)
        more = f" and {several(len(gates) - 1, 'more gate')}" if len(gates) > 1 else ""
        place = where.removeprefix("template").removeprefix(".")
        yield (
            f"{path}.{place + '.' if place else ''}spec.schedulingGates: the Pods are not scheduled while they have "
            f"{quoted(name)}{more}, and neither Berth nor Kueue removes a gate that a template brings: leave "
            "it out, unless a controller of yours removes it"
        )
