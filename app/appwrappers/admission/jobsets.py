"""What is refused of a JobSet by its webhook, and of the Jobs that it makes, with their names. Pure.

Facts: JobSet 0.12 with its usual feature gates. Its webhook gives a Job the completion mode Indexed and its Pods the
restart policy OnFailure, and a Job is created under the name of the JobSet, that of its entry, and a number.
Left to it are the templates for claims of volumes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from app.appwrappers.admission.names import GENERATED
from app.appwrappers.podsets.paths import found_at
from app.kinds.fielderrors import MOST_FAULTS
from app.kinds.name_syntax import dns1035_faults, label_value_faults, subdomain_faults
from app.kinds.objects import check_new
from app.kinds.shapes import ShapeError
from app.numbers import is_whole, shown, worded
from app.pace import step
from app.text import quoted
from app.wire import JSON, mapping

_MOST_JOBS = 64
"""Entries that are looked at; a Workload of Kueue has fewer podSets."""
_MOST_PODS = 2**31 - 1
_MOST_DEPENDENCIES = 5
_LONGEST_MANAGER, _LONGEST_RULE = 63, 128
_RULE = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
_REASONS = (
    "BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy"
)  # fmt: skip
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", re.ASCII)
_ACTIONS = {
    "FailJobSet": "",
    "RestartJobSet": "",
    "RestartJobSetAndIgnoreMaxRestarts": "",
    "RestartJob": "RestartJob",
    "RestartJobAndIgnoreMaxRestarts": "RestartJob",
}
_STRATEGIES = {"Recreate": "", "BlockingRecreate": "", "InPlaceRestart": "InPlaceRestart"}
"""Actions of a rule, and strategies, each with the feature gate that it needs, which is usually off."""
_KIND = ("jobset.x-k8s.io", "JobSet")


def _is_job_set(template: JSON) -> bool:
    return (str(template["apiVersion"]).rpartition("/")[0], template["kind"]) == _KIND


def job_set_problems(template: JSON, path: str, *, readable: bool, small: bool) -> Iterator[str]:
    """Why a JobSet or its Jobs would be refused, nothing for other objects.

    Wrong types in templates that are not `readable` have been named. The Jobs of one that is not `small` are left to
    the API server.
    """
    entries = found_at(template, "template.spec.replicatedJobs")
    if not _is_job_set(template) or not isinstance(entries, list):
        return
    jobs = [mapping(entry) for entry in entries[:_MOST_JOBS]]
    names: set[str] = set()
    for index, job in enumerate(jobs):
        step()
        where = f"{path}.spec.replicatedJobs[{index}]"
        if job.get("name") is None:  # `required` tells of a missing name
            continue
        if str(job["name"]) in names:
            yield f"{where}.name: an earlier entry is called {quoted(str(job['name']))}: want another name"
            continue
        yield from _entry(job, names, where, first=index == 0)
        names.add(str(job["name"]))
        spec = _spec_of(job)
        name = _name_of(template["metadata"], job)
        if faults := dns1035_faults(name):
            yield f"{where}.name: a Job would be called {name}: {faults[0]}"
        elif spec is not None and small:
            yield from _problems(spec, name, where, readable=readable)
    # Names of entries behind those that are looked at are not known.
    if len(entries) == len(jobs):
        yield from islice(_policies(template, jobs, names, f"{path}.spec"), MOST_FAULTS)


def _entry(job: JSON, earlier: set[str], where: str, *, first: bool) -> Iterator[str]:
    """What is wrong with an entry beside its Jobs; `earlier` are the names of those before it."""
    group = job.get("groupName")
    if group is not None:
        name = worded(group)
        yield from (f"{where}.groupName: {fault}, got {quoted(name)}" for fault in dns1035_faults(name))
    replicas, parallelism = job.get("replicas"), found_at(job, "template.template.spec.parallelism")
    if is_whole(replicas) and is_whole(parallelism) and replicas * parallelism > _MOST_PODS:
        yield f"{where}.replicas: want at most {_MOST_PODS} Pods, which replicas times parallelism are"
    needed = job.get("dependsOn")
    if not isinstance(needed, list):
        return
    if first:
        yield f"{where}.dependsOn: the first entry waits for no other: leave it out"
    elif len(needed) > _MOST_DEPENDENCIES:
        yield f"{where}.dependsOn: want at most {_MOST_DEPENDENCIES} entries, got {len(needed)}"
    else:
        entries = [mapping(entry) for entry in needed]
        targets = [entry.get("name") for entry in entries]
        yield from _unknown(targets, earlier, f"{where}.dependsOn", "an earlier entry")
        for index, entry in enumerate(entries):
            yield from _one_of(entry.get("status"), ("Ready", "Complete"), f"{where}.dependsOn[{index}].status")
            if entry.get("name") in targets[:index]:
                yield f"{where}.dependsOn[{index}].name: it stands there already: leave it out"


def _unknown(targets: Any, names: set[str], path: str, expected: str) -> Iterator[str]:
    """The names that no entry has."""
    for target in targets if isinstance(targets, list) else ():
        step()
        if isinstance(target, str) and target not in names:
            yield f"{path}: want the name of {expected} in replicatedJobs, got {quoted(target)}"


def _one_of(value: Any, values: Collection[str], path: str) -> Iterator[str]:
    """A problem where there is a value that the definition does not know."""
    if value is not None and not (isinstance(value, str) and value in values):
        yield f"{path}: want {' or '.join(values)}, got {quoted(worded(value))}"


def _policies(template: JSON, jobs: list[JSON], names: set[str], path: str) -> Iterator[str]:
    """What is wrong with the fields beside the entries."""
    spec = mapping(template.get("spec"))
    order = mapping(spec.get("startupPolicy")).get("startupPolicyOrder")
    yield from _one_of(order, ("AnyOrder", "InOrder"), f"{path}.startupPolicy.startupPolicyOrder")
    if order == "InOrder" and any(job.get("dependsOn") is not None for job in jobs):
        yield f"{path}.startupPolicy.startupPolicyOrder: want InOrder or dependsOn, not both"
    left = spec.get("ttlSecondsAfterFinished")
    if is_whole(left) and left < 0:
        yield f"{path}.ttlSecondsAfterFinished: want 0 or more, got {shown(left)}"
    domain = mapping(spec.get("network")).get("subdomain")
    if isinstance(domain, str) and domain:
        for fault in dict.fromkeys((*subdomain_faults(domain), *dns1035_faults(domain))):
            yield f"{path}.network.subdomain: {fault}, got {quoted(domain)}"
    manager = spec.get("managedBy")
    if isinstance(manager, str):
        yield from _manager(manager, f"{path}.managedBy")
    success = mapping(spec.get("successPolicy"))
    yield from _one_of(success.get("operator"), ("All", "Any"), f"{path}.successPolicy.operator")
    targets = success.get("targetReplicatedJobs")
    yield from _unknown(targets, names, f"{path}.successPolicy.targetReplicatedJobs", "an entry")
    yield from _failures(mapping(spec.get("failurePolicy")), names, f"{path}.failurePolicy")
    if isinstance(spec.get("coordinator"), dict):
        yield from _coordinator(spec["coordinator"], jobs, f"{path}.coordinator")
        yield from _address(template, spec["coordinator"], domain, f"{path}.coordinator")


def _manager(manager: str, path: str) -> Iterator[str]:
    domain, _, name = manager.partition("/")
    if subdomain_faults(domain) or not _PATH.fullmatch(name):
        yield f"{path}: want a domain and a path, such as example.com/controller, got {quoted(manager)}"
    if len(manager) > _LONGEST_MANAGER:
        yield f"{path}: want at most {_LONGEST_MANAGER} characters, got {len(manager)}"


def _failures(policy: JSON, names: set[str], path: str) -> Iterator[str]:
    """What is wrong with the rules for Jobs that fail."""
    yield from _one_of(policy.get("restartStrategy"), _STRATEGIES, f"{path}.restartStrategy")
    named: set[str] = set()
    for index, rule in enumerate(_rules(policy)):
        step()
        where = f"{path}.rules[{index}]"
        yield from _one_of(rule.get("action"), _ACTIONS, f"{where}.action")
        name = worded(rule.get("name") or f"failurePolicyRule{index}")
        if len(name) > _LONGEST_RULE or not _RULE.fullmatch(name):
            form = "a letter, and then letters, digits or _,: that end in a letter, a digit or _"
            yield f"{where}.name: want at most {_LONGEST_RULE} characters: {form}, got {quoted(name)}"
        if name in named:
            yield f"{where}.name: an earlier rule is called {quoted(name)}: want another name"
        named.add(name)
        yield from _unknown(rule.get("targetReplicatedJobs"), names, f"{where}.targetReplicatedJobs", "an entry")
        reasons = rule.get("onJobFailureReasons")
        for reason in reasons if isinstance(reasons, list) else ():
            if isinstance(reason, str) and reason not in _REASONS:
                yield f"{where}.onJobFailureReasons: want some of {', '.join(_REASONS)}, got {quoted(reason)}"


def _rules(policy: JSON) -> list[JSON]:
    rules = policy.get("rules")
    return list(map(mapping, rules)) if isinstance(rules, list) else []


def job_set_warnings(template: JSON, path: str) -> Iterator[str]:
    """What JobSet refuses where a feature gate is off; nothing for other objects."""
    if not _is_job_set(template):
        return
    policy = mapping(found_at(template, "template.spec.failurePolicy"))
    choices = [("restartStrategy", policy.get("restartStrategy"), _STRATEGIES)]
    choices += [(f"rules[{index}].action", rule.get("action"), _ACTIONS) for index, rule in enumerate(_rules(policy))]
    for field, value, gates in choices[:MOST_FAULTS]:
        if isinstance(value, str) and (gate := gates.get(value)):
            where = f"{path}.spec.failurePolicy.{field}"
            yield f"{where}: JobSet refuses {value} where its feature gate {gate} is off, as it usually is"


def _coordinator(coordinator: JSON, jobs: list[JSON], path: str) -> Iterator[str]:
    """The Pod of the JobSet that the others find by a label: it has to be one of them."""
    name = coordinator.get("replicatedJob")
    if name is None:  # `required` tells of it
        return
    job = next((job for job in jobs if job.get("name") == name), None)
    if job is None:
        yield f"{path}.replicatedJob: want the name of an entry in replicatedJobs, got {quoted(str(name))}"
        return
    spec = mapping(mapping(job.get("template")).get("spec"))
    replicas, completions = job.get("replicas", 1), spec.get("completions")
    if spec.get("completionMode") not in (None, "Indexed") or completions is None:
        yield f"{path}.replicatedJob: want completionMode Indexed and completions in the entry {quoted(str(name))}"
        return
    for field, count in (("jobIndex", replicas), ("podIndex", completions)):
        index = coordinator.get(field, 0)
        if is_whole(index) and is_whole(count) and not 0 <= index < count:
            yield f"{path}.{field}: want 0 or more, and less than {shown(count)}, got {shown(index)}"


def _address(template: JSON, coordinator: JSON, domain: Any, path: str) -> Iterator[str]:
    """A label has the address of the coordinator."""
    name = str(template["metadata"].get("name") or "")
    parts = (name, coordinator.get("replicatedJob"), coordinator.get("jobIndex", 0), coordinator.get("podIndex", 0))
    address = f"{'-'.join(map(worded, parts))}.{domain if isinstance(domain, str) and domain else name}"
    for fault in label_value_faults(address) if name else ():
        yield f"{path}: its address {quoted(address)} becomes the value of a label: {fault}"


def _problems(spec: JSON, name: str, where: str, *, readable: bool) -> Iterator[str]:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    try:
        errors, _ = check_new("Job", "v1", job)
    except ShapeError as error:
        if readable:
            yield f"{where}.template.{error.field}: {error.fault}"
        return
    completions = spec.get("completions")
    pod = f"{name}-{completions - 1}-{GENERATED}" if _is_indexed(spec) and isinstance(completions, int) else ""
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
    replicas = job.get("replicas", 1)
    last = shown(replicas - 1) if is_whole(replicas) else 0
    name = metadata.get("name") or f"{metadata.get('generateName') or ''}{GENERATED}"
    return f"{name}-{job.get('name')}-{last}"
