"""The podSets of known kinds, out of the wrapped objects. Pure.

Facts: paths, their order and annotations are those that AppWrapper v1.2 infers, and Kueue names podSets by their order.
Counts are the Pods that the controller of the kind makes: of Kubernetes 1.37, JobSet 0.12, Kubeflow's training operator
1.9.3, KubeRay 1.6.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.appwrappers.model import ANNOTATIONS
from app.appwrappers.podsets import ray
from app.appwrappers.podsets.paths import PathError, elements_at, found_at, integer_at, pod_template_at
from app.pace import step
from app.wire import JSON

POD_INDEX_LABEL = f"{ANNOTATIONS}tas-pod-index-label"
SUB_GROUP_INDEX_LABEL = f"{ANNOTATIONS}tas-sub-group-index-label"
SUB_GROUP_COUNT = f"{ANNOTATIONS}tas-sub-group-count"
"""Annotations of a podSet: by which labels Kueue puts its Pods into an order for placement by topology."""
_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True)
class PodSet:
    """`path` leads to the Pod template in the wrapped object, `replicas` is how many Pods are made of it."""

    path: str
    replicas: int = 1
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> JSON:
        """As `status.componentStatus[].podSets[]` has it."""
        status: JSON = {"replicas": self.replicas, "path": self.path}
        return status | ({"annotations": dict(self.annotations)} if self.annotations else {})


def read_pod_set(pod_set: JSON) -> PodSet:
    """A podSet of a spec or status."""
    replicas = pod_set.get("replicas")
    return PodSet(pod_set["path"], 1 if replicas is None else replicas, pod_set.get("annotations") or {})


def pod_sets_of(component: JSON) -> list[PodSet]:
    """The podSets of a component: those that are declared, else those of its kind. Raises ValueError."""
    declared = [read_pod_set(pod_set) for pod_set in component.get("podSets") or ()]
    return with_submitter(component["template"], declared) or inferred(component["template"])


def with_submitter(template: JSON, declared: list[PodSet]) -> list[PodSet]:
    """The declared podSets, and that of the Pod that submits the job of a RayJob: AppWrapper v1.2 does not know it."""
    path = ray.submitter_path(template) if declared else ""
    missing = path and all(pod_set.path != path for pod_set in declared)
    return [*declared, PodSet(path)] if missing else declared


def counted(component: JSON) -> int:
    """How many podSets a component of any form has, as far as can be seen. No template is looked into."""
    declared = component.get("podSets")
    if isinstance(declared, list) and declared:
        return len(declared)
    try:
        return len(inferred(component["template"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return 0  # the component's own problem says what is wrong


def inferred(template: JSON) -> list[PodSet]:
    """The podSets of a wrapped object, none for a kind that is not known.

    Raises ValueError where a count is no integer, or where there is no Pod template at a path.
    """
    infer = _KINDS.get((template.get("apiVersion"), template.get("kind")))
    pod_sets = list(infer(template)) if infer else []
    for pod_set in pod_sets:
        step()
        template_of(template, pod_set.path)
    return pod_sets


def template_of(template: JSON, path: str) -> JSON:
    """The Pod template of a podSet with all that the controller of the kind puts into its Pods; not to be changed.

    There may be none in the wrapped object, where that controller has one of its own. Raises PathError.
    """
    try:
        pod_template = pod_template_at(template, path)
    except PathError as error:
        return _own_template(template, path, error)
    return ray.completed(template, path, pod_template)


def put_template(template: JSON, path: str) -> JSON:
    """The Pod template at a path, to be changed in place; the controller's own one is put there where it has none.

    Raises PathError.
    """
    try:
        return pod_template_at(template, path)
    except PathError as error:
        own = template["spec"][path.rpartition(".")[2]] = _own_template(template, path, error)
        return own


def _own_template(template: JSON, path: str, error: PathError) -> JSON:
    submitter = ray.own_submitter(template, path)
    if submitter is None:
        raise error
    return submitter


def written_templates(component: JSON) -> list[tuple[str, JSON]]:
    """The Pod templates of all podSets that stand in a component, with their paths. Raises ValueError."""
    template = component["template"]
    paths = [pod_set.path for pod_set in pod_sets_of(component)]
    return [(path, pod_template_at(template, path)) for path in paths if ray.own_submitter(template, path) is None]


def is_known(template: JSON) -> bool:
    """Whether the kind of a wrapped object is one whose podSets are inferred."""
    return (template.get("apiVersion"), template.get("kind")) in _KINDS


def made_at_once(status: JSON) -> list[int]:
    """How many Pods of each podSet of a component are made without waiting until the others are ready.

    `status` is that of the component.
    """
    return [
        0 if ray.waits_for_cluster(status, pod_set["path"]) else read_pod_set(pod_set).replicas
        for pod_set in status["podSets"]
    ]


def _pod(_template: JSON) -> Iterator[PodSet]:
    yield PodSet("template")


def _replicated(template: JSON) -> Iterator[PodSet]:
    path = "template.spec.template"
    if found_at(template, path) is not None:
        yield PodSet(path, integer_at(template, "template.spec.replicas", otherwise=1))


def _job(template: JSON) -> Iterator[PodSet]:
    yield PodSet(
        "template.spec.template", _pods_of_job(template, "template.spec"), {POD_INDEX_LABEL: _COMPLETION_INDEX}
    )


def _job_set(template: JSON) -> Iterator[PodSet]:
    for prefix in elements_at(template, "template.spec.replicatedJobs"):
        step()
        if found_at(template, f"{prefix}.template") is None:
            continue
        replicas = _integer(template, f"{prefix}.replicas", otherwise=1)
        annotations = {
            POD_INDEX_LABEL: _COMPLETION_INDEX,
            SUB_GROUP_INDEX_LABEL: "jobset.sigs.k8s.io/job-index",
            SUB_GROUP_COUNT: str(replicas),
        }
        pods = _pods_of_job(template, f"{prefix}.template.spec")
        yield PodSet(f"{prefix}.template.spec.template", replicas * pods, annotations)


def _py_torch_job(template: JSON) -> Iterator[PodSet]:
    path = "template.spec.pytorchReplicaSpecs"
    specs = found_at(template, path)
    for kind in ("Master", "Worker"):
        # The operator takes a name in any case, and one in another case before the right one.
        names = [name for name in specs if name.lower() == kind.lower()] if isinstance(specs, dict) else []
        prefix = f"{path}.{next((name for name in names if name != kind), kind)}"
        if found_at(template, f"{prefix}.template") is not None:
            annotations = {POD_INDEX_LABEL: "training.kubeflow.org/replica-index"}
            yield PodSet(f"{prefix}.template", integer_at(template, f"{prefix}.replicas", otherwise=1), annotations)


def _ray(template: JSON) -> Iterator[PodSet]:
    for path, count in ray.counts_of(template):
        yield PodSet(path, count)


_KINDS: dict[tuple[Any, Any], Callable[[JSON], Iterator[PodSet]]] = {
    ("v1", "Pod"): _pod,
    ("apps/v1", "Deployment"): _replicated,
    ("apps/v1", "StatefulSet"): _replicated,
    ("batch/v1", "Job"): _job,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): _job_set,
    ("kubeflow.org/v1", "PyTorchJob"): _py_torch_job,
    ray.CLUSTER: _ray,
    ray.JOB: _ray,
}


def _integer(template: JSON, path: str, *, otherwise: int) -> int:
    """An integer at the path; anything else is left to the API server, as AppWrapper v1.2 does."""
    number = found_at(template, path)
    return number if isinstance(number, int) and not isinstance(number, bool) else otherwise


def _pods_of_job(template: JSON, spec: str) -> int:
    """How many Pods of a Job run at a time."""
    parallelism = _integer(template, f"{spec}.parallelism", otherwise=1)
    return min(parallelism, _integer(template, f"{spec}.completions", otherwise=parallelism))
