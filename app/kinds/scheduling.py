"""Validation of where a Pod may run, in the API server's words: affinity, tolerations, spreading. Pure."""

from __future__ import annotations

from app.kinds.fielderrors import Field, invalid
from app.kinds.name_syntax import (
    check_label_selector,
    check_operator,
    label_faults,
    label_value_faults,
    qualified_faults,
    subdomain_faults,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_KEY_TEXT = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def check_affinity(affinity: Field) -> None:
    """Affinity to nodes and to other Pods."""
    node = affinity.below("nodeAffinity")
    for required in node.present(_REQUIRED):
        check_node_selector(required)
    for preferred in node.each(_PREFERRED):
        _check_weight(preferred)
        _check_node_term(preferred.below("preference"))
    for pods in (affinity.below("podAffinity"), affinity.below("podAntiAffinity")):
        for term in pods.each(_REQUIRED):
            _check_pod_term(term)
        for preferred in pods.each(_PREFERRED):
            _check_weight(preferred)
            _check_pod_term(preferred.below("podAffinityTerm"))


def check_node_selector(selector: Field) -> None:
    """Which nodes are meant: there is one term at least."""
    selector.required("nodeSelectorTerms", "must have at least one node selector term")
    for term in selector.each("nodeSelectorTerms"):
        _check_node_term(term)


def _check_weight(preferred: Field) -> None:
    preferred.number("weight", 1, "must be in the range 1-100", 100, absent=0)


def _check_pod_term(term: Field) -> None:
    term.texts("namespaces", label_faults, at="namespace")
    for field in ("labelSelector", "namespaceSelector"):
        term.errors += check_label_selector(term.value.get(field) or {}, term.at(field))
    term.required("topologyKey", "can not be empty")
    term.syntax("topologyKey", qualified_faults)


def check_spreading(pod: Field) -> None:
    """How the Pods are spread; each topology and way once."""
    seen: set[str] = set()
    for entry in pod.each("topologySpreadConstraints"):
        key, way = entry.text("topologyKey"), entry.text("whenUnsatisfiable")
        entry.number("maxSkew", 1, "must be greater than zero", absent=0)
        entry.required("topologyKey", "can not be empty")
        entry.one_of("whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"))
        entry.number("minDomains", 1, "must be greater than zero")
        if "minDomains" in entry.value and way != "DoNotSchedule":
            text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {way}"
            entry.fault("minDomains", "Invalid", text)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            entry.one_of(field, ("Honor", "Ignore"), optional=True)
        entry.errors += check_label_selector(entry.value.get("labelSelector") or {}, entry.at("labelSelector"))
        entry.unique("{topologyKey, whenUnsatisfiable}", f"{{{key}, {way}}}", seen)


def _check_node_term(term: Field) -> None:
    for expression in term.each("matchExpressions"):
        check_operator(expression, numbers=True)
        if expression.text("operator") in ("In", "NotIn"):
            expression.texts("values", label_value_faults)
    for field in term.each("matchFields"):  # the one field of a node to choose by is its name
        if field.text("operator") not in ("In", "NotIn"):
            field.fault("operator", "Invalid", "not a valid selector operator", field.text("operator"))
        elif len(field.value.get("values") or []) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            field.fault("values", "Required", text)
        if field.text("key") != "metadata.name":
            field.fault("key", "Invalid", "not a valid field selector key", field.text("key"))
        else:
            field.texts("values", subdomain_faults)


def check_tolerations(pod: Field) -> None:
    """Which taints the Pod stands."""
    for entry in pod.each("tolerations"):
        operator, value = entry.text("operator") or "Equal", entry.text("value")
        entry.syntax("key", qualified_faults, optional=True)
        if not entry.text("key") and operator != "Exists":
            entry.fault("operator", "Invalid", _NO_KEY_TEXT, entry.text("operator"))
        if operator == "Exists" and value:
            entry.fault("operator", "Invalid", "value must be empty when `operator` is 'Exists'", value)
        elif operator == "Equal":
            entry.errors += invalid(entry.at("operator"), value, label_value_faults(value))
        elif operator != "Exists":
            # The server names Lt and Gt too, and refuses them unless a feature is turned on.
            entry.fault("operator", "NotSupported", 'supported values: "Equal", "Exists", "Lt", "Gt"', operator)
        if "tolerationSeconds" in entry.value and entry.text("effect") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            entry.fault("effect", "Invalid", text, entry.text("effect"))
        if entry.text("effect"):
            entry.one_of("effect", ("NoSchedule", "PreferNoSchedule", "NoExecute"))
