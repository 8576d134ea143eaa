"""Validation of the resources that a container asks for, in the API server's words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import qualified_faults
from app.kube.quantity import parse

if TYPE_CHECKING:
    from app.wire import JSON

_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGEPAGES = "hugepages-"
_INTEGER = "must be an integer"


def check_resources(resources: JSON, path: str) -> list[FieldError]:
    """Limits and requests of one container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors: list[FieldError] = []
    for name, value in limits.items():
        errors += _check_amount(name, value, f"{path}.limits[{name}]")
    for name, value in requests.items():
        errors += _check_amount(name, value, f"{path}.requests[{name}]")
        errors += _check_against_limit(name, value, limits.get(name), path)
    names = {*limits, *requests}
    if any(name.startswith(_HUGEPAGES) for name in names) and not names & {"cpu", "memory"}:
        errors.append(FieldError(path, "Forbidden", "HugePages require cpu or memory"))
    return errors


def check_overhead(overhead: JSON, path: str) -> list[FieldError]:
    """What the runtime needs beside the containers; the server speaks of it as of limits."""
    return [fault for name, value in overhead.items() for fault in _check_amount(name, value, f"{path}.limits[{name}]")]


def _check_amount(name: str, value: str, path: str) -> list[FieldError]:
    errors = [FieldError(path, "Invalid", text, name) for text in qualified_faults(name)]
    standard = name in _NATIVE or name.startswith(_HUGEPAGES)
    if "/" not in name and not standard:
        if not errors:
            errors.append(FieldError(path, "Invalid", "must be a standard resource type or fully qualified", name))
        errors.append(FieldError(path, "Invalid", "must be a standard resource for containers", name))
    elif _is_foreign(name) and (errors or name.startswith("requests.")):
        errors.append(FieldError(path, "Invalid", "doesn't follow extended resource name standard", name))
    number = parse(value)
    if number < 0:
        errors.append(FieldError(path, "Invalid", "must be greater than or equal to 0", value))
    if _is_foreign(name) and number != number.to_integral_value():
        errors.append(FieldError(path, "Invalid", _INTEGER, value))
    return errors


def _is_foreign(name: str) -> bool:
    """A name outside of Kubernetes's own domain: an extended resource."""
    return "/" in name and "kubernetes.io/" not in name


def _check_against_limit(name: str, request: str, limit: str | None, path: str) -> list[FieldError]:
    overcommit = not _is_foreign(name) and not name.startswith(_HUGEPAGES)
    if limit is None:
        if overcommit:
            return []
        return [FieldError(f"{path}.limits", "Required", "Limit must be set for non overcommitable resources")]
    if not overcommit and parse(request) != parse(limit):
        return [FieldError(f"{path}.requests", "Invalid", f"must be equal to {name} limit of {limit}", request)]
    if parse(request) > parse(limit):
        text = f"must be less than or equal to {name} limit of {limit}"
        return [FieldError(f"{path}.requests", "Invalid", text, request)]
    return []
