"""Validation of where a Pod may run, in the API server's words: affinity, tolerations, spreading. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import (
    check_label_selector,
    check_operator,
    check_values,
    invalid,
    label_faults,
    label_value_faults,
    qualified_faults,
    subdomain_faults,
    supported,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.wire import JSON

_TOLERATION_TEXT = 'supported values: "Equal", "Exists", "Lt", "Gt"'
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_affinity(affinity: JSON, path: str) -> list[FieldError]:
    """Affinity to nodes and to other Pods."""
    node = affinity.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    errors: list[FieldError] = []
    if required is not None:
        here = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        terms = required.get("nodeSelectorTerms") or []
        if not terms:
            errors.append(FieldError(here, "Required", "must have at least one node selector term"))
        for index, term in enumerate(terms):
            errors += _check_expressions(term, f"{here}[{index}]")
    for entry, here in _preferred(node, f"{path}.nodeAffinity"):
        errors += _check_weight(entry, here)
        errors += _check_expressions(entry.get("preference") or {}, f"{here}.preference")
    for field in ("podAffinity", "podAntiAffinity"):
        errors += _check_pod_affinity(affinity.get(field) or {}, f"{path}.{field}")
    return errors


def _preferred(affinity: JSON, path: str) -> Iterator[tuple[JSON, str]]:
    for index, entry in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        yield entry, f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"


def _check_weight(entry: JSON, path: str) -> list[FieldError]:
    weight = entry.get("weight", 0)
    return [] if 1 <= weight <= 100 else [FieldError(f"{path}.weight", "Invalid", "must be in the range 1-100", weight)]


def _check_pod_affinity(affinity: JSON, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, term in enumerate(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []):
        errors += _check_pod_term(term, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]")
    for entry, here in _preferred(affinity, path):
        errors += _check_weight(entry, here)
        errors += _check_pod_term(entry.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")
    return errors


def _check_pod_term(term: JSON, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for namespace in term.get("namespaces") or []:
        errors += invalid(f"{path}.namespace", namespace, label_faults(namespace))
    for field in ("labelSelector", "namespaceSelector"):
        errors += check_label_selector(term.get(field) or {}, f"{path}.{field}")
    key = term.get("topologyKey") or ""
    if not key:
        errors.append(FieldError(f"{path}.topologyKey", "Required", "can not be empty"))
    return errors + invalid(f"{path}.topologyKey", key, qualified_faults(key))


def check_spreading(constraints: list[JSON], path: str) -> list[FieldError]:
    """How the Pods are spread; each topology and way once."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(constraints):
        here, key, way = f"{path}[{index}]", entry.get("topologyKey") or "", entry.get("whenUnsatisfiable") or ""
        skew, domains = entry.get("maxSkew", 0), entry.get("minDomains")
        if skew <= 0:
            errors.append(FieldError(f"{here}.maxSkew", "Invalid", "must be greater than zero", skew))
        if not key:
            errors.append(FieldError(f"{here}.topologyKey", "Required", "can not be empty"))
        errors += supported(f"{here}.whenUnsatisfiable", way, ("DoNotSchedule", "ScheduleAnyway"))
        if domains is not None and domains <= 0:
            errors.append(FieldError(f"{here}.minDomains", "Invalid", "must be greater than zero", domains))
        if domains is not None and way != "DoNotSchedule":
            text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {way}"
            errors.append(FieldError(f"{here}.minDomains", "Invalid", text, domains))
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if field in entry:
                errors += supported(f"{here}.{field}", entry[field], ("Honor", "Ignore"))
        errors += check_label_selector(entry.get("labelSelector") or {}, f"{here}.labelSelector")
        mark = f"{{{key}, {way}}}"
        if mark in seen:
            errors.append(FieldError(f"{here}.{{topologyKey, whenUnsatisfiable}}", "Duplicate", "", mark))
        seen.add(mark)
    return errors


def _check_expressions(term: JSON, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, expression in enumerate(term.get("matchExpressions") or []):
        here = f"{path}.matchExpressions[{index}]"
        errors += check_operator(expression, here, numbers=True)
        if expression.get("operator") in ("In", "NotIn"):
            errors += check_values(expression, here, label_value_faults)
    return errors + _check_fields(term, path)


def _check_fields(term: JSON, path: str) -> list[FieldError]:
    """Conditions on fields of a node: on its name alone, and on one."""
    errors: list[FieldError] = []
    for index, field in enumerate(term.get("matchFields") or []):
        here, operator, key = f"{path}.matchFields[{index}]", field.get("operator", ""), field.get("key", "")
        values = field.get("values") or []
        if operator not in ("In", "NotIn"):
            errors.append(FieldError(f"{here}.operator", "Invalid", "not a valid selector operator", operator))
        elif len(values) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(FieldError(f"{here}.values", "Required", text))
        if key != "metadata.name":
            errors.append(FieldError(f"{here}.key", "Invalid", "not a valid field selector key", key))
        else:
            errors += check_values(field, here, subdomain_faults)
    return errors


def check_tolerations(tolerations: list[JSON], path: str) -> list[FieldError]:
    """Which taints the Pod stands."""
    errors: list[FieldError] = []
    for index, entry in enumerate(tolerations):
        here, operator = f"{path}[{index}]", entry.get("operator") or "Equal"
        if entry.get("key"):
            errors += invalid(f"{here}.key", entry["key"], qualified_faults(entry["key"]))
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(FieldError(f"{here}.operator", "Invalid", text, entry.get("operator") or ""))
        if operator == "Exists" and entry.get("value"):
            text = "value must be empty when `operator` is 'Exists'"
            errors.append(FieldError(f"{here}.operator", "Invalid", text, entry["value"]))
        if operator == "Equal":
            value = entry.get("value") or ""
            errors += invalid(f"{here}.operator", value, label_value_faults(value))
        if operator not in ("Exists", "Equal"):
            # The server names Lt and Gt too, and refuses them unless a feature is turned on.
            errors.append(FieldError(f"{here}.operator", "NotSupported", _TOLERATION_TEXT, operator))
        if entry.get("tolerationSeconds") is not None and entry.get("effect") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(FieldError(f"{here}.effect", "Invalid", text, entry.get("effect") or ""))
        if entry.get("effect"):
            errors += supported(f"{here}.effect", entry["effect"], _EFFECTS)
    return errors
