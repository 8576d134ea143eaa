"""Validation of how much of a device's capacity one claim may take, in the API server's words. Pure.

The rules are those of `requestPolicy` in resource.k8s.io/v1 (gate DRAConsumableCapacity).
"""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

from app.devtools.sandbox.kinds.devicenames import bounded
from app.kinds.fielderrors import Field
from app.kube.quantity import canonical, parse

_MOST_VALUES = 10


def check_policy(capacity: Field, *, shared: bool) -> None:
    """The request policy of one capacity; `shared` devices alone may have one."""
    if "requestPolicy" not in capacity.value:
        return
    policy = capacity.below("requestPolicy")
    if not shared:
        capacity.fault("requestPolicy", "Forbidden", "allowMultipleAllocations must be true")
        return
    whole = capacity.text("value") or "0"
    values, ranged = bool(policy.value.get("validValues")), "validRange" in policy.value
    if values and ranged:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        policy.fault("", "Forbidden", text)
    elif values and policy.required("default", "required when validValues is defined"):
        _check_values(policy, whole)
    elif ranged and policy.required("default", "required when validRange is defined"):
        _check_range(policy.below("validRange"), policy.text("default"), whole)


def _check_values(policy: Field, whole: str) -> None:
    values = policy.value["validValues"]
    for index, (one, next_one) in enumerate(pairwise(values)):
        if parse(one) > parse(next_one):
            policy.fault(f"validValues[{index + 1}]", "Invalid", "values must be sorted in ascending order", next_one)
    if bounded(policy, "validValues", _MOST_VALUES, declared=False):
        seen: set[Decimal] = set()
        for here, value in policy.entries("validValues"):
            if parse(value) > parse(whole):
                policy.fault(here, "Invalid", f"option is larger than capacity value: {whole}", value)
        for here, value in policy.entries("validValues"):
            if parse(value) in seen:
                policy.fault(here, "Duplicate", "", str(parse(value)))
            seen.add(parse(value))
    if parse(policy.text("default")) not in [parse(value) for value in values]:
        text = "default value is not valid according to the requestPolicy"
        policy.fault("validValues", "Invalid", text, policy.text("default"))


def _check_range(limits: Field, default: str, whole: str) -> None:
    if not limits.required("min", "required when validRange is defined"):
        return
    least, most = limits.text("min"), limits.text("max")
    if parse(least) > parse(whole):
        limits.fault("min", "Invalid", f"min is larger than capacity value: {whole}")
    if parse(default) < parse(least):
        limits.fault("min", "Invalid", f"default is less than min: {least}", default)
    if most and parse(least) > parse(most):
        limits.fault("max", "Invalid", f"min is larger than max: {most}", least)
    if most and parse(most) > parse(whole):
        limits.fault("max", "Invalid", f"max is larger than capacity value: {whole}")
    if most and parse(default) > parse(most):
        limits.fault("max", "Invalid", f"default is more than max: {most}", default)
    if limits.text("step"):
        _check_step(limits, default, whole)


def _check_step(limits: Field, default: str, whole: str) -> None:
    least, most, step = limits.text("min"), limits.text("max"), limits.text("step")
    if (first := parse(least) + parse(step)) > parse(whole):
        text = f"one step {canonical(str(first))} is larger than capacity value: {whole}"
        limits.fault("step", "Invalid", text)
    for value in (default, *([most] if most else [])):
        if parse(step) and (parse(value) - parse(least)) % parse(step):
            text = f"value is not a multiple of a given step ({step}) from ({least})"
            limits.fault("step", "Invalid", text, value)
