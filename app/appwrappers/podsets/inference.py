"""The podSets of known kinds, out of the wrapped objects. Pure.

Facts: paths, counts and annotations are those that AppWrapper v1.2 infers; Kueue names podSets by their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.appwrappers.model import ANNOTATIONS
from app.appwrappers.podsets.paths import PathError, pod_template_at, value_at
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
        found: JSON = {"replicas": self.replicas, "path": self.path}
        return found | ({"annotations": dict(self.annotations)} if self.annotations else {})


def read_pod_set(said: JSON) -> PodSet:
    """A podSet of a spec or status."""
    replicas = said.get("replicas")
    return PodSet(said["path"], 1 if replicas is None else replicas, said.get("annotations") or {})


def pod_sets_of(component: JSON) -> list[PodSet]:
    """The podSets of a component: those that are declared, else those of its kind. Raises ValueError."""
    declared = component.get("podSets") or []
    return [read_pod_set(one) for one in declared] or inferred(component["template"])


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
    found = list(infer(template)) if infer else []
    for one in found:
        step()
        pod_template_at(template, one.path)
    return found


def _pod(_template: JSON) -> Iterator[PodSet]:
    yield PodSet("template")


def _replicated(template: JSON) -> Iterator[PodSet]:
    path = "template.spec.template"
    if _found(template, path) is not None:
        yield PodSet(path, _count(template, "template.spec.replicas"))


def _job(template: JSON) -> Iterator[PodSet]:
    yield PodSet(
        "template.spec.template", _pods_of_job(template, "template.spec"), {POD_INDEX_LABEL: _COMPLETION_INDEX}
    )


def _job_set(template: JSON) -> Iterator[PodSet]:
    for prefix in _elements(template, "template.spec.replicatedJobs"):
        step()
        if _found(template, f"{prefix}.template") is None:
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
    for kind in ("Master", "Worker"):
        prefix = f"template.spec.pytorchReplicaSpecs.{kind}"
        if _found(template, f"{prefix}.template") is not None:
            annotations = {POD_INDEX_LABEL: "training.kubeflow.org/replica-index"}
            yield PodSet(f"{prefix}.template", _count(template, f"{prefix}.replicas"), annotations)


def _ray(spec: str) -> Callable[[JSON], Iterator[PodSet]]:
    def infer(template: JSON) -> Iterator[PodSet]:
        yield PodSet(f"{spec}.headGroupSpec.template")
        for prefix in _elements(template, f"{spec}.workerGroupSpecs"):
            step()
            if _found(template, f"{prefix}.template") is not None:
                yield PodSet(f"{prefix}.template", _count(template, f"{prefix}.replicas"))

    return infer


_KINDS: dict[tuple[Any, Any], Callable[[JSON], Iterator[PodSet]]] = {
    ("v1", "Pod"): _pod,
    ("apps/v1", "Deployment"): _replicated,
    ("apps/v1", "StatefulSet"): _replicated,
    ("batch/v1", "Job"): _job,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): _job_set,
    ("kubeflow.org/v1", "PyTorchJob"): _py_torch_job,
    ("ray.io/v1", "RayCluster"): _ray("template.spec"),
    ("ray.io/v1", "RayJob"): _ray("template.spec.rayClusterSpec"),
}


def _found(template: JSON, path: str) -> Any:
    """The value at the path, None where there is none."""
    try:
        return value_at(template, path)
    except PathError:
        return None


def _elements(template: JSON, path: str) -> list[str]:
    """The paths of the elements of a list; none where there is no list."""
    found = _found(template, path)
    return [f"{path}[{index}]" for index in range(len(found))] if isinstance(found, list) else []


def _integer(template: JSON, path: str, *, otherwise: int) -> int:
    """An integer at the path; anything else is left to the API server, as the peer does."""
    found = _found(template, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else otherwise


def _count(template: JSON, path: str) -> int:
    """The replicas at the path, 1 without any. Raises ValueError for what is no integer."""
    found = _found(template, path)
    if found is None:
        return 1
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError(f"{path}: want an integer, got {found!r}")  # noqa: TRY004  a value of the user, not of a caller
    return found


def _pods_of_job(template: JSON, spec: str) -> int:
    """How many Pods of a Job run at a time."""
    parallelism = _integer(template, f"{spec}.parallelism", otherwise=1)
    return min(parallelism, _integer(template, f"{spec}.completions", otherwise=parallelism))
