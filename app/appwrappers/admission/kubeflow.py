"""What Kubeflow's training operator refuses of its jobs: by its webhooks, and of an MPIJob by its controller. Pure.

Facts: training operator 1.9.3. What release 1.8 takes, and releases without webhooks may take, is a warning: a role in
lower case, a Master without a number, Workers without Pods, elastic jobs without Workers, `managedBy`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from app.appwrappers.admission.names import GENERATED
from app.appwrappers.podsets.paths import found_at
from app.kinds.fielderrors import MOST_FAULTS
from app.kinds.name_syntax import dns1035_faults
from app.numbers import is_whole, shown, worded
from app.pace import step
from app.text import enumerated, quoted
from app.wire import JSON

_API = "kubeflow.org/v1"
_OPERATOR = "kubeflow.org/training-operator"
_MANAGERS = (_OPERATOR, "kueue.x-k8s.io/multikueue")
_RUN_BY = "spec.runPolicy.managedBy"


class _Job(NamedTuple):
    """A kind: where its roles are, and what these have to be."""

    field: str
    container: str = ""
    """One with this name runs the program of a role."""
    roles: tuple[str, ...] = ()
    """Those that there may be; any, where none is named."""
    older: bool = False
    """Whether releases before the webhooks took the roles in any case."""
    needed: str = ""
    alone: str = ""
    """The role that has one Pod."""
    stated: bool = False
    """Whether the number of that one Pod has to be written."""
    reviewed: bool = True
    """Whether there is a webhook, which looks at the name too."""


_BOTH = ("Master", "Worker")
_JOBS = {
    "PyTorchJob": _Job("pytorchReplicaSpecs", "pytorch", _BOTH, older=True, alone="Master", stated=True),
    "TFJob": _Job("tfReplicaSpecs", "tensorflow"),
    "XGBoostJob": _Job("xgbReplicaSpecs", "xgboost", _BOTH, older=True, needed="Master", alone="Master", stated=True),
    "PaddleJob": _Job("paddleReplicaSpecs", "paddle", _BOTH, older=True),
    "JAXJob": _Job("jaxReplicaSpecs", "jax", ("Worker",)),
    "MPIJob": _Job("mpiReplicaSpecs", "", ("Launcher", "Worker"), needed="Launcher", alone="Launcher", reviewed=False),
}
FIELDS = {kind: job.field for kind, job in _JOBS.items()}
"""By kind: where its roles are, below `spec`."""
_CHIEFS = ("Chief", "Master")
_MANAGED = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob")
"""Kinds whose webhook looks at `managedBy`."""


def kubeflow_problems(template: JSON, path: str) -> Iterator[str]:
    """Why the operator would refuse a wrapped object of its kinds at `path`; nothing for other objects."""
    job = _job_of(template)
    if job is not None:
        yield from (f"{path}.{problem}" for problem in islice(_problems(template, job), MOST_FAULTS))


def kubeflow_warnings(template: JSON, path: str) -> Iterator[str]:
    """What newer releases of the operator refuse, and older ones take."""
    job = _job_of(template)
    if job is not None:
        yield from (f"{path}.{warning}" for warning in islice(_warnings(template, job), MOST_FAULTS))


def _job_of(template: JSON) -> _Job | None:
    return _JOBS.get(template["kind"]) if template["apiVersion"] == _API else None


def _roles(template: JSON, job: _Job) -> dict[str, Any] | None:
    """The roles by name; None where there is no such field, of which `required` tells. An API server drops null."""
    roles = found_at(template, f"template.spec.{job.field}")
    if not isinstance(roles, dict):
        return None
    return {role: spec for role, spec in islice(roles.items(), MOST_FAULTS) if spec is not None}


def _place(job: _Job, role: str) -> str:
    """The path of a role, whose name may be any text."""
    return f"spec.{job.field}.{quoted(role)[1:-1]}"


def _named(role: str, job: _Job) -> str:
    """The name by which the operator knows a role."""
    return role.capitalize() if job.older else role


def _problems(template: JSON, job: _Job) -> Iterator[str]:
    if job.reviewed:
        yield from _name(template["metadata"])
    elif found_at(template, f"template.{_RUN_BY}") not in (None, _OPERATOR):
        return  # its controller does not look at it
    roles = _roles(template, job)
    if roles is None:
        return
    for role, spec in roles.items():
        step()
        yield from _role(role, spec, job)
    names = {_named(role, job) for role in roles}
    if job.needed and job.needed not in names:
        yield f"spec.{job.field}.{job.needed}: want it: there is no {template['kind']} without"
    if template["kind"] == "TFJob" and names.issuperset(_CHIEFS):
        yield f"spec.{job.field}: want a Chief or a Master, not both"
    if template["kind"] == "PyTorchJob":
        yield from _processes(template)


def _warnings(template: JSON, job: _Job) -> Iterator[str]:
    roles = _roles(template, job) or {}
    for role, spec in roles.items():
        where, name = _place(job, role), _named(role, job)
        replicas = spec.get("replicas") if isinstance(spec, dict) else None
        if name in job.roles and role != name:
            yield f"{where}: the training operator 1.8 and newer refuses it: want {name}"
        if name == job.alone and job.stated and replicas is None:
            yield f"{where}.replicas: the training operator 1.8 and newer refuses a {name} without: want 1"
        if template["kind"] == "PyTorchJob" and name != job.alone and is_whole(replicas) and replicas < 1:
            yield f"{where}.replicas: the training operator 1.9 and newer refuses it: want 1 or more"
    manager = found_at(template, f"template.{_RUN_BY}")
    if template["kind"] in _MANAGED and isinstance(manager, str) and manager not in _MANAGERS:
        yield f"{_RUN_BY}: the training operator 1.9 and newer refuses it: want {' or '.join(_MANAGERS)}"
    elastic = template["kind"] == "PyTorchJob" and isinstance(found_at(template, "template.spec.elasticPolicy"), dict)
    if elastic and "Worker" not in {_named(role, job) for role in roles}:
        yield f"spec.{job.field}.Worker: the training operator 1.9 and newer wants it with elasticPolicy"


def _name(metadata: JSON) -> Iterator[str]:
    field = "name" if metadata.get("name") else "generateName"
    name = str(metadata.get(field) or "")
    for fault in dns1035_faults(name if field == "name" else name + GENERATED) if name else ():
        yield f"metadata.{field}: {fault}, got {quoted(name)}"


def _role(role: str, spec: Any, job: _Job) -> Iterator[str]:
    path, name = _place(job, role), _named(role, job)
    if job.roles and name not in job.roles:
        yield f"{path}: want {' or '.join(job.roles)} as the name of a role, got {quoted(role)}"
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    if name == job.alone and is_whole(replicas) and replicas != 1:
        yield f"{path}.replicas: want 1, got {shown(replicas)}"
    if isinstance(spec, dict) and spec.get("template") is None:
        return  # `required` tells of it
    containers = found_at({"spec": spec}, "template.spec.template.spec.containers")
    if isinstance(containers, list) and containers:
        yield from _containers(containers, f"{path}.template.spec.containers", job)
    else:
        yield f"{path}.template.spec.containers: want a container: the training operator refuses a role without"


def _containers(containers: list[Any], path: str, job: _Job) -> Iterator[str]:
    names = [container.get("name") for container in containers if isinstance(container, dict)]
    if job.container and job.container not in names:
        got = enumerated([quoted(worded(name)) for name in names]) or "none"
        yield f"{path}: want one with the name {quoted(job.container)}, got {got}"
    for index, container in enumerate(containers):
        step()
        for field in ("image",) if job.container else ("image", "name"):
            if isinstance(container, dict) and container.get(field) in (None, ""):
                yield f"{path}[{index}].{field}: want it: the training operator starts no container without"


def _processes(template: JSON) -> Iterator[str]:
    policy = found_at(template, "template.spec.elasticPolicy")
    processes = found_at(template, "template.spec.nprocPerNode")
    if isinstance(policy, dict) and policy.get("nProcPerNode") is not None and processes is not None:
        got = quoted(worded(processes))
        yield f"spec.elasticPolicy.nProcPerNode: want it or spec.nprocPerNode, not both, got {got} there"
