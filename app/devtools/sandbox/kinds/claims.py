"""Validation of ResourceClaims, ResourceClaimTemplates and DeviceClasses, in the API server's words. Pure.

The rules are those of resource.k8s.io/v1. Takes objects that `shapes` decoded and `defaults` completed; their metadata
aside. What a status may say is not here.
"""

from __future__ import annotations

from functools import lru_cache

from app.devtools.sandbox.kinds.devicelists import check_unique
from app.devtools.sandbox.kinds.devicenames import RequestNames, bounded, check_qualified, check_references
from app.devtools.sandbox.kinds.deviceselectors import MOST_ENTRIES, check_opaque, check_selectors
from app.kinds.fielderrors import Field, FieldError, invalid
from app.kinds.name_syntax import (
    check_annotations,
    check_labels,
    label_faults,
    label_value_faults,
    qualified_faults,
    subdomain_faults,
)
from app.wire import JSON

_MOST_ALTERNATIVES = 8
_MODES = ("All", "ExactCount")
TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")
_ONE_OF_TEXT = "exactly one of `exactly` or `firstAvailable` is required"
_CONSTRAINT_TEXT = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'


def request_names(spec: JSON) -> dict[str, list[str]]:
    """The names of the requests in a claim's spec, each with those of its alternatives."""
    return {
        request.get("name") or "": [one.get("name") or "" for one in request.get("firstAvailable") or []]
        for request in (spec.get("devices") or {}).get("requests") or []
    }


def check_claim(claim: JSON) -> list[FieldError]:
    """All faults of a new ResourceClaim."""
    spec = Field(claim.get("spec") or {}, "spec")
    _check_spec(spec)
    return spec.errors


def check_template(template: JSON) -> list[FieldError]:
    """All faults of a new ResourceClaimTemplate."""
    outer = Field(template.get("spec") or {}, "spec")
    metadata = outer.below("metadata")
    outer.errors += check_annotations(metadata.value.get("annotations") or {}, metadata.at("annotations"))
    outer.errors += check_labels(metadata.value.get("labels"), metadata.at("labels"))
    for name in metadata.value.keys() - {"annotations", "labels"}:
        metadata.fault(name, "Forbidden", "cannot be set")
    _check_spec(outer.below("spec"))
    return outer.errors


def check_class(device_class: JSON) -> list[FieldError]:
    """All faults of a DeviceClass."""
    spec = Field(device_class.get("spec") or {}, "spec")
    check_selectors(spec)
    if bounded(spec, "config", MOST_ENTRIES):
        for entry in spec.each("config"):
            check_opaque(entry)
    if "extendedResourceName" in spec.value:
        with spec.declared():
            spec.syntax("extendedResourceName", _extended_faults)
    return spec.errors


@lru_cache(maxsize=1024)
def is_extended(name: str) -> bool:
    """Whether a resource is one of nodes that Kubernetes does not know by itself; quotas put `requests.` before it."""
    return not _extended_faults(name)


def _extended_faults(name: str) -> list[str]:
    faults = []
    if "/" not in name:
        faults.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in name:
        faults.append('must not have "kubernetes.io/" domain')
    if name.startswith("requests."):
        faults.append('must not have "requests." prefix')
    return faults + qualified_faults(f"requests.{name}")


def _check_spec(spec: Field) -> None:
    devices, known = spec.below("devices"), request_names(spec.value)
    if bounded(devices, "requests", MOST_ENTRIES):
        for request in devices.each("requests"):
            _check_request(request)
        check_unique(devices, "requests", "name")
    if bounded(devices, "constraints", MOST_ENTRIES):
        for constraint in devices.each("constraints"):
            _check_constraint(constraint, known)
    if bounded(devices, "config", MOST_ENTRIES):
        for entry in devices.each("config"):
            check_references(entry, known, most=MOST_ENTRIES)
            check_opaque(entry)


def _check_request(request: Field) -> None:
    request.syntax("name", label_faults)
    exactly, alternatives = "exactly" in request.value, bool(request.value.get("firstAvailable"))
    if exactly and alternatives:
        request.fault("", "Invalid", f"{_ONE_OF_TEXT}, but multiple fields are set")
    elif exactly:
        _check_devices(request.below("exactly"))
    elif not alternatives:
        request.fault("", "Required", _ONE_OF_TEXT)
    elif bounded(request, "firstAvailable", _MOST_ALTERNATIVES):
        for alternative in request.each("firstAvailable"):
            alternative.syntax("name", label_faults)
            _check_devices(alternative)
        check_unique(request, "firstAvailable", "name")


def _check_devices(wanted: Field) -> None:
    """Which devices, and how many: of a request, or of an alternative."""
    wanted.named("deviceClassName", subdomain_faults)
    check_selectors(wanted)
    mode, count = wanted.text("allocationMode"), wanted.value.get("count") or 0
    if mode == "All" and count:
        wanted.fault("count", "Invalid", "must not be specified when allocationMode is 'All'", count)
    elif mode == "ExactCount" and count <= 0:
        wanted.fault("count", "Invalid", "must be greater than zero", count)
    wanted.one_of("allocationMode", _MODES)
    for toleration in wanted.each("tolerations"):  # the server does not keep to their documented limit
        _check_toleration(toleration)


def _check_toleration(toleration: Field) -> None:
    toleration.syntax("key", qualified_faults, optional=True)
    value, operator = toleration.text("value"), toleration.text("operator")
    if operator == "Exists" and value:
        toleration.fault("value", "Invalid", "must be empty for operator `Exists`")
    elif operator == "Equal":
        toleration.errors += invalid(toleration.at("value"), value, label_value_faults(value))
    if toleration.required("operator"):
        toleration.one_of("operator", ("Equal", "Exists"))
    if toleration.text("effect"):
        toleration.one_of("effect", TAINT_EFFECTS)


def _check_constraint(constraint: Field, known: RequestNames) -> None:
    check_references(constraint, known, most=MOST_ENTRIES)
    for name in ("matchAttribute", "distinctAttribute"):
        if name in constraint.value:
            check_qualified(constraint, name)
    if not constraint.value.keys() & {"matchAttribute", "distinctAttribute"}:
        constraint.fault("", "Required", _CONSTRAINT_TEXT)
