"""Validation of where a Pod may run, in the API server's words: affinity, tolerations, spreading. Pure."""

from __future__ import annotations

from app.kinds.fielderrors import Field, FieldError, invalid
from app.kinds.name_syntax import (
    check_label_selector,
    check_operator,
    label_faults,
    label_value_faults,
    qualified_faults,
    subdomain_faults,
)
from app.wire import JSON

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
        _check_node_term(preferred.below("preference"), preferred=True)
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
    _check_label_keys(term)
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
        _check_label_keys(entry)
        entry.unique("{topologyKey, whenUnsatisfiable}", f"{{{key}, {way}}}", seen)


def _check_node_term(term: Field, *, preferred: bool = False) -> None:
    """Labels and name of nodes; what is only `preferred` may have values that no label has."""
    for expression in term.each("matchExpressions"):
        check_operator(expression, numbers=True)
        if not preferred:
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


def _check_label_keys(holder: Field) -> None:
    """The keys of labels of the Pod itself that others have too, or have not."""
    selector: JSON = holder.value.get("labelSelector") or {}
    matched, others = (holder.value.get(field) or [] for field in ("matchLabelKeys", "mismatchLabelKeys"))
    for field, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", others)):
        if keys and "labelSelector" not in holder.value:
            holder.fault(field, "Forbidden", "must not be specified when labelSelector is not set")
        elif keys:
            holder.texts(field, qualified_faults)
    selected = set(selector.get("matchLabels") or {})
    for expression in selector.get("matchExpressions") or []:
        key = (expression or {}).get("key") or ""
        if key in matched and key in selected:
            text = "exists in both matchLabelKeys and labelSelector"
            last = len(matched) - 1 - matched[::-1].index(key)
            holder.errors.append(FieldError(f"{holder.path}[{last}]", "Invalid", text, key))
        selected.add(key)
    for here, key in holder.entries("matchLabelKeys"):
        if key in others:
            holder.fault(here, "Invalid", "exists in both matchLabelKeys and mismatchLabelKeys", key)


def check_tolerations(pod: Field, field: str = "tolerations") -> None:
    """Which taints the Pod stands."""
    for entry in pod.each(field):
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
