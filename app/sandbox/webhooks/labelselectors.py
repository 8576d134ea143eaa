"""LabelSelector objects (matchLabels, matchExpressions) against labels. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from app.wire import JSON


def matches(selector: JSON, labels: Mapping[str, str]) -> bool:
    """Whether all of the selector's terms hold; an empty selector matches everything, an unknown operator nothing."""
    wanted: JSON = selector.get("matchLabels") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    return all(term_matches(term, labels) for term in selector.get("matchExpressions") or [])


def term_matches(term: JSON, labels: Mapping[str, str]) -> bool:
    """One `key operator values` term with the operators of labels and of node affinity (Gt, Lt on integers)."""
    key, operator, values = term.get("key", ""), term.get("operator"), term.get("values") or []
    value = labels.get(key)
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt") and value is not None and len(values) == 1:
        try:
            left, right = int(value), int(values[0])
        except ValueError:
            return False
        return left > right if operator == "Gt" else left < right
    return False
