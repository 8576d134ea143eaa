"""What is refused of the Jobs that a JobSet makes, and of their names. Pure.

Facts: JobSet 0.12, whose webhook gives a Job the completion mode Indexed and its Pods the restart policy OnFailure, and
which creates each Job under the name of the JobSet, that of its entry, and a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.appwrappers.podsets.paths import found_at
from app.kinds.name_syntax import dns1035_faults
from app.kinds.objects import check_new
from app.kinds.shapes import ShapeError
from app.pace import step
from app.text import quoted
from app.wire import JSON

_MOST_JOBS = 64
"""Entries that are looked at; a Workload of Kueue has fewer podSets."""
_POD_SUFFIX = "-abcde"
"""What a Pod's name has at its end."""


def job_set_problems(template: JSON, path: str, *, readable: bool) -> Iterator[str]:
    """Why the Jobs of a JobSet would be refused; wrong types in templates that are not `readable` are named."""
    jobs = found_at(template, "template.spec.replicatedJobs")
    names: set[str] = set()
    for index, job in enumerate(jobs[:_MOST_JOBS] if isinstance(jobs, list) else ()):
        step()
        where = f"{path}.spec.replicatedJobs[{index}]"
        if not isinstance(job, dict) or job.get("name") is None:  # `required` tells of a missing name
            continue
        if str(job["name"]) in names:
            yield f"{where}.name: an earlier entry is called {quoted(str(job['name']))}: want another name"
            continue
        names.add(str(job["name"]))
        spec = _spec_of(job)
        name = _name_of(template["metadata"], job)
        if faults := dns1035_faults(name):
            yield f"{where}.name: a Job would be called {name}: {faults[0]}"
        elif spec is not None:
            yield from _problems(spec, name, where, readable=readable)


def _problems(spec: JSON, name: str, where: str, *, readable: bool) -> Iterator[str]:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    try:
        errors, _ = check_new("Job", "v1", job)
    except ShapeError as error:
        if readable:
            yield f"{where}.template.{error.field}: {error.fault}"
        return
    completions = spec.get("completions")
    pod = f"{name}-{completions - 1}{_POD_SUFFIX}" if _is_indexed(spec) and isinstance(completions, int) else ""
    if pod and dns1035_faults(pod):
        yield f"{where}.name: a Pod would be called {pod}: {dns1035_faults(pod)[0]}"
    for fault in errors:
        # JobSet adds volumes for its claims.
        if fault.type != "NotFound" and not fault.field.startswith("metadata."):
            yield f"{where}.template.{fault}"


def _spec_of(job: JSON) -> JSON | None:
    """The spec of a Job with JobSet's defaults; None where it has no Pod template."""
    spec: Any = found_at(job, "template.template.spec")
    pods = found_at(job, "template.template.spec.template.spec")
    if not isinstance(spec, dict) or not isinstance(pods, dict):
        return None
    policy = pods.get("restartPolicy") or "OnFailure"
    template = {**spec["template"], "spec": {**pods, "restartPolicy": policy}}
    mode = spec.get("completionMode")
    return {**spec, "completionMode": "Indexed" if mode is None else mode, "template": template}


def _is_indexed(spec: JSON) -> bool:
    return bool(spec["completionMode"] == "Indexed")


def _name_of(metadata: JSON, job: JSON) -> str:
    """The longest name of a Job of an entry."""
    replicas = job.get("replicas")
    last = replicas - 1 if isinstance(replicas, int) and replicas > 0 else 0
    return f"{metadata.get('name') or 'given'}-{job.get('name')}-{last}"
