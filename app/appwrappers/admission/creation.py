"""What an API server would refuse of the object of a component, and what would keep it from starting. Pure.

Facts: seen on kube-apiserver 1.37. It refuses `resourceVersion`, and takes `uid`, `creationTimestamp`, `generation`,
`managedFields` and `status` without using them, so that these are let through. The fields that an object of another
kind needs are those of the definitions of KubeRay 1.6.2 and JobSet 0.12, and of the webhooks of Kubeflow's training
operator 1.9.3. Fields that have defaults, there or by a webhook, are left out, and so are those whose lack
`podsets.inference` finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from app.appwrappers.admission.jobsets import job_set_problems, job_set_warnings
from app.appwrappers.admission.kubeflow import FIELDS, kubeflow_problems, kubeflow_warnings
from app.appwrappers.admission.ray import ray_problems, upgrade_warnings
from app.appwrappers.admission.stops import stop_warnings
from app.appwrappers.podsets.inference import pod_sets_of
from app.appwrappers.podsets.paths import found_at
from app.kinds.fielderrors import MOST_FAULTS
from app.kinds.name_syntax import check_metadata
from app.kinds.objects import NAMESPACED, check_new, name_rule
from app.kinds.shapes import ShapeError, decode_metadata, is_built_in
from app.numbers import worded
from app.pace import step
from app.text import quoted, several
from app.wire import JSON

MOST_VALUES = 4096
"""Fields and items of an object whose fields are checked. A Pod with ten containers has some hundreds."""
_NOT_WRITTEN = ("uid", "resourceVersion", "selfLink")
"""Metadata of an exported object that is not used, or has a problem of its own."""


def identity_of(template: JSON) -> tuple[str, str, str] | None:
    """Group, kind and name, which one object of a namespace has; None where the name is given later."""
    name = (template.get("metadata") or {}).get("name")
    return (_group(template), template["kind"], name) if name else None


def creation_problems(template: JSON, path: str) -> Iterator[str]:
    """Why the object cannot be created, each with the field. The metadata has been checked for its shape."""
    group, kind, metadata = _group(template), template["kind"], template["metadata"]
    version = metadata.get("resourceVersion")
    if version not in (None, "", "0"):
        yield (
            f"{path}.metadata.resourceVersion: an API server refuses it for objects to be created: leave it out, "
            f"got {quoted(str(version))}"
        )
    yield from _metadata_problems(group, kind, metadata, path)


def object_problems(template: JSON, path: str, unknown: list[str], *, readable: bool) -> Iterator[str]:
    """Why the API server would refuse an object of a built-in kind, and operators one of theirs or a Job of a JobSet.

    Fields that it has and that are not known go to `unknown`. Where its Pod templates are not `readable`, a field of a
    wrong type has been named. An object with more than `MOST_VALUES` is left to the API server.
    """
    yield from ray_problems(template, path)
    yield from kubeflow_problems(template, path)
    yield from islice(_missing_problems(template, path), MOST_FAULTS)
    small = _has_at_most(template, MOST_VALUES)
    yield from job_set_problems(template, path, readable=readable, small=small)
    if not small or (template["apiVersion"], template["kind"]) not in NAMESPACED:
        return
    try:
        errors, fields = check_new(template["kind"], template["apiVersion"].rpartition("/")[2], _written(template))
    except ShapeError as error:
        if readable:
            yield f"{path}.{error.field}: {error.fault}"
        return
    unknown += [f"template.{field}" for field in fields]
    yield from (f"{path}.{error}" for error in errors)


def _has_at_most(template: JSON, most: int) -> bool:
    """Whether an object has so many fields and items at all levels, or fewer. Nothing more is looked at."""
    waiting: list[Any] = [template]
    count = 0
    while waiting and count <= most:
        value = waiting.pop()
        step()
        count += len(value)
        if count <= most:
            inner = value.values() if isinstance(value, dict) else value
            waiting += [below for below in inner if below and isinstance(below, dict | list)]
    return count <= most


def _written(template: JSON) -> JSON:
    """The object as it is created."""
    metadata = _named(template["metadata"])
    return {**template, "metadata": {key: value for key, value in metadata.items() if key not in _NOT_WRITTEN}}


def _named(metadata: JSON) -> JSON:
    """Metadata with the name that it gets, and numbers among its labels as the texts that are written."""
    named = metadata if metadata.get("name") else {**metadata, "name": "given"}
    labels = named.get("labels")
    if isinstance(labels, dict):
        texts = {key: worded(value) for key, value in labels.items()}
        named = {**named, "labels": texts}
    return named


def creation_warnings(component: JSON, path: str) -> Iterator[str]:
    """What would keep the object from making its Pods, and what is not used."""
    yield from stop_warnings(component["template"], f"{path}.template")
    yield from upgrade_warnings(component["template"], f"{path}.template")
    yield from kubeflow_warnings(component["template"], f"{path}.template")
    yield from job_set_warnings(component["template"], f"{path}.template")
    yield from _surplus_infos(component, path)


def _surplus_infos(component: JSON, path: str) -> Iterator[str]:
    """A warning where there are more podSetInfos than podSets."""
    infos = component.get("podSetInfos")
    pod_sets = len(pod_sets_of(component))
    if isinstance(infos, list) and len(infos) > pod_sets:
        counts = f"{len(infos)} for {several(pod_sets, 'podSet')}"
        yield f"{path}.podSetInfos: {counts}: those after the first {pod_sets} are not used"


def _group(template: JSON) -> str:
    return str(template["apiVersion"]).rpartition("/")[0]


def _metadata_problems(group: str, kind: str, metadata: JSON, path: str) -> Iterator[str]:
    try:
        # Of the version all is said.
        named = _named({field: value for field, value in metadata.items() if field != "resourceVersion"})
        decoded, _ = decode_metadata(kind, "v1", named)
    except ShapeError as error:
        field = error.field.removeprefix("metadata").removeprefix(".")
        yield f"{path}.metadata{'.' if field else ''}{field}: {error.fault}"
        return
    built_in = is_built_in(group)
    rule = name_rule(kind) if built_in else "subdomain"
    for problem in check_metadata(decoded, namespaced=True, name_rule=rule, free_finalizers=not built_in):
        yield f"{path}.{problem}"


def _of_cluster(path: str, *, inferred: bool = False) -> Mapping[str, tuple[str, ...]]:
    """What a cluster of Ray has to have; of one that is `inferred` the head has been looked for."""
    head = {path: ("headGroupSpec",), f"{path}.headGroupSpec".lstrip("."): ("template",)}
    others = {"workerGroupSpecs.*": ("groupName", "template"), "gcsFaultToleranceOptions": ("redisAddress",)}
    return (head if not inferred else {}) | {f"{path}.{at}".lstrip("."): fields for at, fields in others.items()}


_UPGRADE = ("gatewayClassName", "intervalSeconds", "stepSizePercent")
_FIELDS: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]] = {
    ("ray.io", "RayCluster"): _of_cluster("", inferred=True),
    ("ray.io", "RayJob"): _of_cluster("rayClusterSpec", inferred=True),
    ("ray.io", "RayService"): {
        "": ("rayClusterConfig",),
        **_of_cluster("rayClusterConfig"),
        "upgradeStrategy.clusterUpgradeOptions": _UPGRADE,
    },
    ("ray.io", "RayCronJob"): {"": ("jobTemplate",), **_of_cluster("jobTemplate.rayClusterSpec")},
    ("jobset.x-k8s.io", "JobSet"): {
        "replicatedJobs.*": ("name", "template"),
        "replicatedJobs.*.dependsOn.*": ("name", "status"),
        "startupPolicy": ("startupPolicyOrder",),
        "successPolicy": ("operator",),
        "failurePolicy.rules.*": ("action",),
        "coordinator": ("replicatedJob",),
    },
    **{
        ("kubeflow.org", kind): {"": (field,), f"{field}.*": ("template",)} for kind, field in FIELDS.items()
    },
}  # fmt: skip
"""By group and kind: the paths of objects below `spec`, with `*` for each entry, and the fields that these need."""


def _missing_problems(template: JSON, path: str) -> Iterator[str]:
    """The fields that a wrapped object at `path` lacks; nothing of other kinds. What is no object is left out."""
    kind = (str(template["apiVersion"]).rpartition("/")[0], template["kind"])
    for holder, fields in _FIELDS.get(kind, {}).items():
        for where, obj in _holders(template, holder.split(".") if holder else [], "spec"):
            for field in fields:
                if obj.get(field) is None:
                    yield f"{path}.{where}.{field}: want it: no {template['kind']} is created without"


def _holders(template: JSON, steps: list[str], path: str) -> Iterator[tuple[str, JSON]]:
    """The objects that the steps lead to from `path`, with their paths."""
    step()
    holders = found_at(template, f"template.{path}")
    if steps[:1] == ["*"] and isinstance(holders, list):
        entries = [f"{path}[{index}]" for index in range(len(holders))]
    elif steps[:1] == ["*"]:
        entries = [f"{path}.{name}" for name in holders] if isinstance(holders, dict) else []
    else:
        entries = [f"{path}.{steps[0]}"] if steps else []
    for entry in entries:
        yield from _holders(template, steps[1:], entry)
    if not steps and isinstance(holders, dict):
        yield path, holders
