"""What KubeRay makes of a RayCluster and a RayJob: how many workers, who submits the job, what it adds to Pods. Pure.

Facts: KubeRay 1.6.2 (`utils.GetWorkerGroupDesiredReplicas`, `common.GetSubmitterTemplate`, `BuildAutoscalerContainer`),
with the defaults of its definitions. What it adds counts as Kueue 0.19.2 counts it (`jobs/raycluster`, `jobs/rayjob`).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from app.appwrappers.podsets.paths import elements_at, found_at, integer_at
from app.kube.quantity import parse
from app.pace import step
from app.wire import JSON

CLUSTER, JOB = ("ray.io/v1", "RayCluster"), ("ray.io/v1", "RayJob")
_SUBMITTER_PATH = "template.spec.submitterPodTemplate"
_PREFIX: dict[Any, str] = {CLUSTER: "template.spec", JOB: "template.spec.rayClusterSpec"}
_AS_POD, _AS_CONTAINER = "K8sJobMode", "SidecarMode"
_SUBMITTER = "ray-job-submitter"
_OF_SUBMITTER = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
_OF_AUTOSCALER = {field: {"cpu": "500m", "memory": "512Mi"} for field in ("requests", "limits")}
_OF_CLEANUP = {"cpu": "200m", "memory": "256Mi"}


def counts_of(template: JSON) -> Iterator[tuple[str, int]]:
    """The paths of the Pod templates, each with how many Pods are made of it. Raises ValueError.

    A RayJob with `clusterSelector` has none: its job runs in the Pods of another cluster, and Kueue leaves it alone.
    """
    if runs_elsewhere(template):
        return
    prefix = _PREFIX[_kind(template)]
    yield f"{prefix}.headGroupSpec.template", 1
    for group in elements_at(template, f"{prefix}.workerGroupSpecs"):
        step()
        if found_at(template, f"{group}.template") is not None:
            yield f"{group}.template", _workers(template, group)
    if path := submitter_path(template):
        yield path, 1


def submitter_path(template: JSON) -> str:
    """Where a RayJob has the template of the Pod that submits the job to its cluster; "" where there is no such Pod."""
    return _SUBMITTER_PATH if _submission(template) == _AS_POD and not runs_elsewhere(template) else ""


def submits_elsewhere(template: JSON) -> bool:
    """Whether it is a RayJob with a Pod that submits the job to the cluster of another object."""
    return runs_elsewhere(template) and _submission(template) == _AS_POD


def runs_elsewhere(template: JSON) -> bool:
    """Whether it is a RayJob for the cluster of another object."""
    return _kind(template) == JOB and bool(found_at(template, "template.spec.clusterSelector"))


def _workers(template: JSON, group: str) -> int:
    fields = (("replicas", 0), ("minReplicas", 0), ("maxReplicas", 2**31 - 1), ("numOfHosts", 1))
    replicas, least, most, hosts = (
        integer_at(template, f"{group}.{field}", otherwise=default) for field, default in fields
    )
    if found_at(template, f"{group}.suspend") is True:
        return 0
    return (least if replicas < least else min(replicas, most)) * hosts


def waits_for_cluster(template: JSON, path: str) -> bool:
    """Whether the Pods of a template are made only when the cluster is ready, as the one that submits the job."""
    return _kind(template) == JOB and path == _SUBMITTER_PATH


def own_submitter(template: JSON, path: str) -> JSON | None:
    """The template that KubeRay takes for the Pod that submits the job, where there is none at its path."""
    if not path or path != submitter_path(template) or found_at(template, path) is not None:
        return None
    containers = found_at(template, f"{_PREFIX[JOB]}.headGroupSpec.template.spec.containers")
    head = containers[0] if isinstance(containers, list) and containers else None
    image = {"image": head["image"]} if isinstance(head, dict) and "image" in head else {}
    container = {"name": _SUBMITTER, **image, "resources": deepcopy(_OF_SUBMITTER)}
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def completed(template: JSON, path: str, pod_template: JSON) -> JSON:
    """The Pod template at a path with what KubeRay adds; the same object where it adds nothing. Raises ValueError."""
    prefix = _PREFIX.get(_kind(template))
    if prefix is None or path != f"{prefix}.headGroupSpec.template":
        return pod_template
    given = pod_template["spec"].get("containers") or []
    if not isinstance(given, list) or not all(map(_has_resources, given)):
        return pod_template  # the check of its fields says what is wrong
    containers: list[JSON] = list(given)
    if containers and _cleans_up(template, prefix):
        containers[0] = _at_least(containers[0], _OF_CLEANUP)
    if found_at(template, f"{prefix}.enableInTreeAutoscaling") is True:
        resources = found_at(template, f"{prefix}.autoscalerOptions.resources")
        containers.append({"name": "autoscaler", "resources": _OF_AUTOSCALER if resources is None else resources})
    if _submission(template) == _AS_CONTAINER:
        containers.append({"name": _SUBMITTER, "resources": _OF_SUBMITTER})
    return pod_template | {"spec": pod_template["spec"] | {"containers": containers}}


def _has_resources(container: Any) -> bool:
    """Whether it is a container whose requests can be read."""
    if not isinstance(container, dict):
        return False
    resources = container.get("resources") or {}
    return isinstance(resources, dict) and isinstance(resources.get("requests") or {}, dict)


def _cleans_up(template: JSON, prefix: str) -> bool:
    """Whether a Pod cleans Redis up once the head is gone: Kueue counts it where it is more than the head."""
    annotations: Any = (template.get("metadata") or {}).get("annotations") or {}
    annotation = str(annotations.get("ray.io/ft-enabled")).lower()
    return annotation == "true" or found_at(template, f"{prefix}.gcsFaultToleranceOptions") is not None


def _at_least(container: JSON, amounts: dict[str, str]) -> JSON:
    resources = container.get("resources") or {}
    requests = resources.get("requests") or {}
    more = {name: text for name, text in amounts.items() if parse(requests.get(name) or "0") < parse(text)}
    return container | {"resources": resources | {"requests": requests | more}}


def _submission(template: JSON) -> str:
    """How the job of a RayJob is submitted; "" for other kinds."""
    return str(found_at(template, "template.spec.submissionMode") or _AS_POD) if _kind(template) == JOB else ""


def _kind(template: JSON) -> tuple[Any, Any]:
    return template.get("apiVersion"), template.get("kind")
