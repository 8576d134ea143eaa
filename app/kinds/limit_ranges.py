"""Validation of LimitRanges, in the API server's words. Pure. Source: `ValidateLimitRange` of Kubernetes 1.37."""

from __future__ import annotations

from app.kinds.fielderrors import Field, invalid
from app.kinds.name_syntax import qualified_faults
from app.kinds.resources import check_container_name, check_resource_name, overcommits
from app.kube.quantity import parse

_TYPES = frozenset({"Pod", "Container", "PersistentVolumeClaim"})
_ORDERED = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)
"""What may not be more than what, and the field of the fault."""
_NAMES = {
    "min": "min value",
    "max": "max value",
    "default": "default value",
    "defaultRequest": "default request value",
}
_OF_PODS = ("min", "max", "maxLimitRequestRatio")
_OF_ALL = (*_OF_PODS, "default", "defaultRequest")


def check_limit_range(whole: Field) -> None:
    """The limits of each type once; no bound contradicts another."""
    seen: set[str] = set()
    for limit in whole.below("spec").each("limits"):
        kind = limit.text("type")
        faults = qualified_faults(kind)
        if not faults and "/" not in kind and kind not in _TYPES:
            faults = ["must be a standard limit type or fully qualified"]
        limit.errors += invalid(limit.at("type"), kind, faults)
        limit.unique("type", kind, seen)
        for field in ("default", "defaultRequest") if kind == "Pod" else ():
            if limit.value.get(field):
                limit.fault(field, "Forbidden", "may not be specified when `type` is 'Pod'")
        if kind == "PersistentVolumeClaim" and not any(
            "storage" in (limit.value.get(end) or {}) for end in _OF_PODS[:2]
        ):
            text = "either minimum or maximum storage value is required, but neither was provided"
            limit.fault("limits", "Required", text)
        _check_amounts(limit, _OF_PODS if kind == "Pod" else _OF_ALL)


def _check_amounts(limit: Field, fields: tuple[str, ...]) -> None:
    check_name = check_container_name if limit.text("type") in ("Pod", "Container") else check_resource_name
    amounts = {field: {name: parse(text) for name, text in (limit.value.get(field) or {}).items()} for field in fields}
    for field, bounds in amounts.items():
        for name in bounds:
            check_name(limit, f"{field}[{name}]", name)
    for name in sorted({name for bounds in amounts.values() for name in bounds}):
        found = {field: bounds[name] for field, bounds in amounts.items() if name in bounds}
        shown = {field: limit.value[field][name] for field in found}
        for lower, upper, at in _ORDERED:
            if lower in found and upper in found and found[lower] > found[upper]:
                text = f"{_NAMES[lower]} {shown[lower]} is greater than {_NAMES[upper]} {shown[upper]}"
                limit.fault(f"{at}[{name}]", "Invalid", text, shown[at])
        ratio = found.get("maxLimitRequestRatio")
        at = f"maxLimitRequestRatio[{name}]"
        if ratio is not None and ratio < 1:
            limit.fault(at, "Invalid", f"ratio {shown['maxLimitRequestRatio']} is less than 1", str(ratio))
        if ratio is not None and found.get("min") and "max" in found and ratio > found["max"] / found["min"]:
            text = f"ratio {shown['maxLimitRequestRatio']} is greater than max/min = {found['max'] / found['min']:f}"
            limit.fault(at, "Invalid", text, shown["maxLimitRequestRatio"])
        same = found.get("default") == found.get("defaultRequest") or not {"default", "defaultRequest"} <= found.keys()
        if not overcommits(name) and not same:
            text = f"default value must equal to defaultRequest value in {name}"
            limit.fault(f"defaultRequest[{name}]", "Invalid", text, shown["defaultRequest"])
