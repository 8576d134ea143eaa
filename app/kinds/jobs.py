"""Validation of Jobs and CronJobs, in the API server's words. Pure.

Takes an object that `shapes` decoded and `defaults` completed.
"""

from __future__ import annotations

import re

from app.kinds.fielderrors import Field, FieldError, invalid
from app.kinds.name_syntax import (
    check_label_selector,
    label_faults,
    label_value_faults,
    qualified_faults,
    subdomain_faults,
)
from app.kinds.schedules import check_schedule
from app.kinds.workloads import NO_MATCH, NOT_NEGATIVE, check_template
from app.kube.selectors import label_selector_from_json
from app.wire import JSON

_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_INDEXED = "Indexed"
_MOST_INDEXES, _MANY_INDEXES = 100_000, 10_000
_MOST_RULES, _MOST_CODES, _MOST_INTERVALS = 20, 255, 64 * 1024
_MOST_MANAGER = 63
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", re.ASCII)
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_RULES = ("onExitCodes", "onPodConditions")
_UID = "batch.kubernetes.io/controller-uid"
_FREE_NAME = 52
"""Characters of the name of a CronJob, whose Jobs get 11 more."""


def check_job(whole: Field) -> None:
    """The numbers and policies of a Job, its selector and its template."""
    spec = whole.below("spec")
    _check_generated(whole)
    _check_job_spec(spec)
    selector = spec.value.get("selector")
    labels = spec.below("template").below("metadata").value.get("labels")
    if selector is None:
        if spec.value.get("manualSelector"):
            spec.fault("selector", "Required")
            spec.fault("template.metadata.labels", "Invalid", NO_MATCH, labels)
    elif faults := check_label_selector(selector, "spec.selector"):
        spec.errors += faults
    elif _is_complete(whole) and not label_selector_from_json(selector).matches(labels):
        spec.fault("template.metadata.labels", "Invalid", NO_MATCH, labels)
    completions = spec.value.get("completions") or 0
    if spec.text("completionMode") == _INDEXED and completions > 0:
        name = whole.below("metadata").text("name")
        host = f"{name}-{completions - 1}"
        if label_faults(host):
            text = f"will not able to create pod with invalid DNS label: {host}"
            whole.below("metadata").fault("name", "Invalid", text)


def check_cron_job(whole: Field) -> None:
    """When it runs, and the Job of each run."""
    spec = whole.below("spec")
    check_schedule(spec)
    spec.number("startingDeadlineSeconds", 0, NOT_NEGATIVE)
    if spec.required("concurrencyPolicy"):
        spec.one_of("concurrencyPolicy", ("Allow", "Forbid", "Replace"))
    job = spec.below("jobTemplate").below("spec")
    _check_job_spec(job)
    if "selector" in job.value:
        job.fault("selector", "Invalid", "`selector` will be auto-generated")
    if job.value.get("manualSelector"):
        job.fault("manualSelector", "NotSupported", 'supported values: "nil", "false"')
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        spec.number(field, 0, NOT_NEGATIVE)
    if len(whole.below("metadata").text("name")) > _FREE_NAME:
        whole.below("metadata").fault("name", "Invalid", f"must be no more than {_FREE_NAME} characters")


def generate_labels(job: JSON) -> None:
    """Write the selector of a Job, and the labels of its Pods, where its author has not, as the server does."""
    metadata, spec = job["metadata"], job["spec"]
    if spec.get("manualSelector"):
        return
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = {**_generated(metadata), **(template.get("labels") or {})}
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {_UID: metadata["uid"], **(selector.get("matchLabels") or {})}


def _is_complete(job: Field) -> bool:
    """Whether the selector is all that it will be."""
    return bool(job.below("metadata").text("uid") or job.below("spec").value.get("manualSelector"))


def _generated(metadata: JSON) -> JSON:
    names = {"controller-uid": metadata.get("uid"), "job-name": metadata.get("name")}
    return {f"{prefix}{name}": value for prefix in ("batch.kubernetes.io/", "") for name, value in names.items()}


def _check_generated(whole: Field) -> None:
    """The selector and the labels that a Job gets when it is created; before that, it has no uid."""
    spec, metadata = whole.below("spec"), whole.below("metadata")
    if spec.value.get("manualSelector"):
        return
    labels = spec.below("template").below("metadata").value.get("labels") or {}
    new = not metadata.text("uid")
    generated = _generated(metadata.value)
    for label, value in generated.items():
        if labels.get(label, value if new else None) != value:
            detail = "a Job writes it: leave it out" if new else f"must be '{value}'"
            spec.fault(f"template.metadata.labels[{label}]", "Invalid", detail, labels.get(label))
    name = metadata.text("name")
    if new and "batch.kubernetes.io/job-name" not in labels:
        spec.errors += invalid(spec.at("template.labels"), name, label_value_faults(name))
    selector = spec.value.get("selector") or {}
    # The uid that it is going to have is in no selector.
    matched = generated if not new else {label: value or "-" for label, value in generated.items()}
    if not any(selector.values()) and new:
        return
    if not check_label_selector(selector, "") and not label_selector_from_json(selector).matches(matched):
        detail = "a Job gets it when it is created: leave it out, or set manualSelector"
        spec.fault("selector", "Invalid", detail if new else "`selector` not auto-generated")


def _check_job_spec(job: Field) -> None:
    for field in _COUNTS:
        job.number(field, 0, NOT_NEGATIVE)
    if "maxFailedIndexes" in job.value and "backoffLimitPerIndex" not in job.value:
        job.fault("backoffLimitPerIndex", "Required", "when maxFailedIndexes is specified")
    _check_manager(job)
    job.one_of("completionMode", ("NonIndexed", _INDEXED), optional=True)
    _check_indexes(job)
    if "podFailurePolicy" in job.value:
        _check_failures(job)
    if "successPolicy" in job.value:
        _check_success(job)
    policies = ("Failed",) if "podFailurePolicy" in job.value else ("Failed", "TerminatingOrFailed")
    job.one_of("podReplacementPolicy", policies, optional=True)
    pod = check_template(job.below("template"))
    policy = pod.text("restartPolicy")
    if policy in ("", "Always"):
        pod.fault("restartPolicy", "Required", 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        pod.one_of("restartPolicy", ("OnFailure", "Never"))
    elif policy != "Never" and "podFailurePolicy" in job.value:
        pod.fault("restartPolicy", "Invalid", 'only "Never" is supported when podFailurePolicy is specified')


def _check_manager(job: Field) -> None:
    if "managedBy" not in job.value or not job.required("managedBy"):
        return
    manager = job.text("managedBy")
    domain, _, path = manager.partition("/")
    if not domain or not path:
        job.fault("managedBy", "Invalid", 'must be a domain-prefixed path (such as "acme.io/foo")')
    elif faults := subdomain_faults(domain):
        job.fault("managedBy", "Invalid", faults[0], domain)
    elif not _PATH.fullmatch(path):
        job.fault("managedBy", "Invalid", f"Invalid path (regex used for validation is '{_PATH.pattern}')", path)
    if len(manager.encode()) > _MOST_MANAGER:
        job.fault("managedBy", "TooLong", f"may not be more than {_MOST_MANAGER} bytes")


def _check_indexes(job: Field) -> None:
    """What belongs to Jobs whose Pods have an index."""
    if job.text("completionMode") != _INDEXED:
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if field in job.value and job.text("completionMode") == "NonIndexed":
                job.fault(field, "Invalid", "requires indexed completion mode")
        return
    completions, most = job.value.get("completions"), job.value.get("maxFailedIndexes")
    if completions is None:
        job.fault("completions", "Required", "when completion mode is Indexed")
    text = f"must be less than or equal to {_MOST_INDEXES}"
    least = -(2**31)
    job.number("parallelism", least, f"{text} when completion mode is Indexed", _MOST_INDEXES)
    if completions is not None and most is not None and most > completions:
        job.fault("maxFailedIndexes", "Invalid", "must be less than or equal to completions")
    job.number("maxFailedIndexes", least, text, _MOST_INDEXES)
    if (completions or 0) > _MOST_INDEXES and "backoffLimitPerIndex" in job.value:
        above = f"completions are above {_MOST_INDEXES} and used with backoff limit per index"
        if most is None:
            job.fault("maxFailedIndexes", "Required", f"must be specified when completions is above {_MOST_INDEXES}")
        for field in ("parallelism", "maxFailedIndexes"):
            job.number(field, least, f"must be less than or equal to {_MANY_INDEXES} when {above}", _MANY_INDEXES)


def _check_failures(job: Field) -> None:
    """Which failures of Pods count, by rules."""
    policy, pod = job.below("podFailurePolicy"), job.below("template").below("spec")
    names = {item.text("name") for kind in ("containers", "initContainers") for item in pod.each(kind)}
    _check_length(policy, "rules", _MOST_RULES)
    for rule in policy.each("rules"):
        if not rule.text("action"):
            valid = " ".join(f'"{action}"' for action in _ACTIONS)
            rule.fault("action", "Required", f"valid values: [{valid}]")
        elif rule.text("action") == "FailIndex" and "backoffLimitPerIndex" not in job.value:
            rule.fault("action", "Invalid", "requires the backoffLimitPerIndex to be set")
        else:
            rule.one_of("action", _ACTIONS)
        if "onExitCodes" in rule.value:
            _check_exit_codes(rule.below("onExitCodes"), names)
        _check_length(rule, "onPodConditions", _MOST_RULES)
        for pattern in rule.each("onPodConditions"):
            pattern.syntax("type", qualified_faults)
            if not pattern.text("status"):
                pattern.fault("status", "Required", 'valid values: ["False" "True" "Unknown"]')
            else:
                pattern.one_of("status", ("False", "True", "Unknown"))
        given = sum(bool(rule.value.get(field)) or field in rule.value.keys() & {"onExitCodes"} for field in _RULES)
        if given != 1:
            which = "both OnExitCodes and OnPodConditions is not supported"
            text = f"specifying {which if given else 'one of OnExitCodes and OnPodConditions is required'}"
            rule.fault("", "Invalid", text, rule.value)


def _check_exit_codes(codes: Field, names: set[str]) -> None:
    """`names` are those of the containers."""
    if not codes.text("operator"):
        codes.fault("operator", "Required", 'valid values: ["In" "NotIn"]')
    else:
        codes.one_of("operator", ("In", "NotIn"))
    if "containerName" in codes.value and codes.text("containerName") not in names:
        codes.fault(
            "containerName", "Invalid", "must be one of the container or initContainer names in the pod template"
        )
    values = codes.value.get("values") or []
    if not values:
        codes.fault("values", "Invalid", "at least one value is required", [])
    _check_length(codes, "values", _MOST_CODES)
    seen: set[int] = set()
    for here, value in codes.entries("values"):
        if value == 0 and codes.text("operator") == "In":
            codes.fault(here, "Invalid", "must not be 0 for the In operator", value)
        if value in seen:
            codes.fault(here, "Duplicate", "", value)
        seen.add(value)
        if len(codes.errors) > _MOST_CODES:
            return
    if values != sorted(values):
        codes.fault("values", "Invalid", "must be ordered")


def _check_success(job: Field) -> None:
    """When a Job has succeeded although not all of its indexes have, by rules."""
    if job.text("completionMode") != _INDEXED:
        job.fault("successPolicy", "Invalid", "requires indexed completion mode")
        return
    policy, completions = job.below("successPolicy"), job.value.get("completions")
    policy.required("rules", "at least one rules must be specified when the successPolicy is specified")
    _check_length(policy, "rules", _MOST_RULES)
    for rule in policy.each("rules"):
        if not rule.value.keys() & {"succeededCount", "succeededIndexes"}:
            text = "at least one of succeededCount or succeededIndexes must be specified"
            rule.fault("", "Required", text)
        if completions is None:
            continue
        total, faults = _count_indexes(rule.text("succeededIndexes"), completions)
        rule.errors += [FieldError(rule.at("succeededIndexes"), *fault) for fault in faults]
        rule.number("succeededCount", 0, NOT_NEGATIVE)
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        rule.number("succeededCount", -(2**31), text, completions)
        if "succeededIndexes" in rule.value:
            of = "the number of indexes in the specified succeededIndexes field"
            rule.number("succeededCount", -(2**31), f"must be less than or equal to {total} ({of})", total)


def _count_indexes(text: str, completions: int) -> tuple[int, list[tuple[str, str, object]]]:
    """How many indexes a text such as `0,2-4` names, and what is wrong with it."""
    if len(text) > _MOST_INTERVALS:
        return 0, [("TooLong", f"may not be more than {_MOST_INTERVALS} bytes", None)]
    total, last = 0, -1
    for interval in text.split(",") if text else ():
        ends = interval.split("-")
        numbers = [int(end) if re.fullmatch("[+]?[0-9]{1,9}", end, re.ASCII) else completions for end in ends]
        rising = all(low < high for low, high in zip([last, *numbers], numbers, strict=False))
        if len(ends) > 2 or not rising or numbers[-1] >= completions:
            want = f"want rising indexes below {completions}, such as 0,2-4"
            return 0, [("Invalid", f"error parsing succeededIndexes: {want}", text)]
        total += numbers[-1] - numbers[0] + 1
        last = numbers[-1]
    return total, []


def _check_length(holder: Field, field: str, most: int) -> None:
    count = len(holder.value.get(field) or ())
    if count > most:
        holder.fault(field, "TooMany", f"must have at most {most} items", count)
