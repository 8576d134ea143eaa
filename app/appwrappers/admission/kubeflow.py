"""What Kubeflow's training operator refuses of its jobs: by its webhooks, and of an MPIJob by its controller. Pure.

Facts: training operator 1.9.3. Releases before 1.8 have no webhooks, take the name of a role in any case, and one Pod
where a Master has no number: of these there is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from app.appwrappers.podsets.paths import found_at
from app.kinds.fielderrors import MOST_FAULTS
from app.kinds.name_syntax import dns1035_faults
from app.numbers import shown, worded
from app.pace import step
from app.text import enumerated, quoted
from app.wire import JSON

_GROUP, _MANAGERS = "kubeflow.org", ("kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue")
_RUN_BY = "spec.runPolicy.managedBy"


class _Job(NamedTuple):
    """A kind: where its roles are, and what these have to be."""

    field: str
    container: str = ""
    """One with this name runs the program of a role."""
    roles: tuple[str, ...] = ()
    """Those that there may be; any, where none is named."""
    needed: str = ""
    alone: str = ""
    """The role that has one Pod."""
    stated: bool = False
    """Whether the number of that one Pod has to be written."""
    positive: bool = False
    """Whether the other roles have at least one Pod."""
    reviewed: bool = True
    """Whether there is a webhook, which looks at the name, `managedBy`, and the case of roles too."""


_BOTH = ("Master", "Worker")
_JOBS = {
    "PyTorchJob": _Job("pytorchReplicaSpecs", "pytorch", _BOTH, alone="Master", stated=True, positive=True),
    "TFJob": _Job("tfReplicaSpecs", "tensorflow"),
    "XGBoostJob": _Job("xgbReplicaSpecs", "xgboost", _BOTH, needed="Master", alone="Master", stated=True),
    "PaddleJob": _Job("paddleReplicaSpecs", "paddle", _BOTH),
    "JAXJob": _Job("jaxReplicaSpecs", "jax", ("Worker",)),
    "MPIJob": _Job("mpiReplicaSpecs", "", ("Launcher", "Worker"), needed="Launcher", alone="Launcher", reviewed=False),
}
_CHIEFS = ("Chief", "Master")


def kubeflow_problems(template: JSON, path: str) -> Iterator[str]:
    """Why the operator would refuse a wrapped object of its kinds at `path`; nothing for other objects."""
    job = _job_of(template)
    if job is not None:
        yield from (f"{path}.{problem}" for problem in islice(_problems(template, job), MOST_FAULTS))


def kubeflow_warnings(template: JSON, path: str) -> Iterator[str]:
    """What the webhooks of its newer releases refuse, and older releases take."""
    job = _job_of(template)
    if job is None:
        return
    for role, spec in _roles(template, job):
        where = f"{path}.spec.{job.field}.{role}"
        if job.reviewed and job.roles and role not in job.roles:
            yield f"{where}: the training operator 1.8 and newer refuses it: want {role.capitalize()}"
        if role == job.alone and job.stated and spec.get("replicas") is None:
            yield f"{where}.replicas: the training operator 1.8 and newer refuses a {role} without: want 1"


def _job_of(template: JSON) -> _Job | None:
    group, _, version = str(template["apiVersion"]).partition("/")
    return _JOBS.get(template["kind"]) if group == _GROUP and version == "v1" else None


def _roles(template: JSON, job: _Job) -> list[tuple[str, JSON]]:
    """The roles that are objects, by name: `required` tells of what they lack."""
    found = found_at(template, f"template.spec.{job.field}")
    items = islice(found.items(), MOST_FAULTS) if isinstance(found, dict) else ()
    return [(name, spec) for name, spec in items if isinstance(spec, dict)]


def _problems(template: JSON, job: _Job) -> Iterator[str]:
    if job.reviewed:
        yield from _identity(template)
    path = f"spec.{job.field}"
    roles = _roles(template, job)
    for role, spec in roles:
        step()
        yield from _role(role, spec, f"{path}.{role}", job)
    names = [role.capitalize() if job.roles else role for role, _ in roles]
    if job.needed and roles and job.needed not in names:
        yield f"{path}.{job.needed}: want it: there is no {template['kind']} without"
    if template["kind"] == "TFJob" and set(_CHIEFS) <= set(names):
        yield f"{path}: want a Chief or a Master, not both"
    if template["kind"] == "PyTorchJob":
        yield from _elastic(template, names)


def _identity(template: JSON) -> Iterator[str]:
    metadata = template["metadata"]
    name = metadata.get("name")
    for fault in dns1035_faults(str(name)) if name else ():
        yield f"metadata.name: {fault}, got {quoted(str(name))}"
    manager = found_at(template, f"template.{_RUN_BY}")
    if isinstance(manager, str) and manager not in _MANAGERS:
        yield f"{_RUN_BY}: want {' or '.join(_MANAGERS)}, got {quoted(manager)}"


def _role(role: str, spec: JSON, path: str, job: _Job) -> Iterator[str]:
    if job.roles and role.capitalize() not in job.roles:
        yield f"{path}: want {' or '.join(job.roles)} as the name of a role, got {quoted(role)}"
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and not isinstance(replicas, bool):
        if role.capitalize() == job.alone and replicas != 1:
            yield f"{path}.replicas: want 1, got {shown(replicas)}"
        elif job.positive and replicas < 1:
            yield f"{path}.replicas: want 1 or more, got {shown(replicas)}"
    containers = found_at(spec, "template.template.spec.containers")
    if isinstance(containers, list):
        yield from _containers(containers, f"{path}.template.spec.containers", job)


def _containers(containers: list[Any], path: str, job: _Job) -> Iterator[str]:
    names = [container.get("name") for container in containers if isinstance(container, dict)]
    if job.container and job.container not in names:
        got = enumerated([worded(name) for name in names]) or "none"
        yield f"{path}: want one with the name {quoted(job.container)}, got {got}"
    for index, container in enumerate(containers):
        step()
        if isinstance(container, dict) and container.get("image") in (None, ""):
            yield f"{path}[{index}].image: want it: the training operator starts no container without"


def _elastic(template: JSON, names: list[str]) -> Iterator[str]:
    policy = found_at(template, "template.spec.elasticPolicy")
    if not isinstance(policy, dict):
        return
    if names and "Worker" not in names:
        yield "spec.pytorchReplicaSpecs.Worker: want it with elasticPolicy"
    said = found_at(template, "template.spec.nprocPerNode")
    if policy.get("nProcPerNode") is not None and said is not None:
        yield f"spec.elasticPolicy.nProcPerNode: want it or spec.nprocPerNode, not both, got {worded(said)} there"
