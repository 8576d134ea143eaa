"""What the tests of the placement wing share: Pods, reviews of them, and the scheduler's reading of node affinity."""

from __future__ import annotations

import re
from typing import Any

from app.placement.model import HOST_LABEL, TENANT_LABEL, Requirement

HOST = Requirement(HOST_LABEL, "host-a")
TENANT = Requirement(TENANT_LABEL, "t1")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


IN_HOST = expression(HOST_LABEL, "In", "host-a")
IN_TENANT = expression(TENANT_LABEL, "In", "t1")
ZONE = expression("zone", "Exists")


def spec_with(*terms: Any, **fields: Any) -> dict[str, Any]:
    """The spec of a Pod whose required node affinity has these terms."""
    return {
        "containers": [{"name": "a"}],
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}},
    } | fields


def term(*expressions: Any, **fields: Any) -> dict[str, Any]:
    return {"matchExpressions": list(expressions), **fields}


def terms_of(spec: dict[str, Any]) -> list[Any]:
    terms: list[Any] = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return terms


def holds(condition: dict[str, Any], labels: dict[str, str]) -> bool:
    """One expression of a node selector, as Kubernetes documents it."""
    key, values = condition["key"], condition.get("values") or []
    match condition["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case operator:
            both = [labels.get(key, ""), *values]
            if len(both) != 2 or not all(re.fullmatch(r"[+-]?\d+", one) for one in both):
                return False
            return int(both[0]) > int(both[1]) if operator == "Gt" else int(both[0]) < int(both[1])


def term_matches(one: Any, labels: dict[str, str], node: str = "") -> bool:
    """A term without conditions matches no node."""
    one = one or {}
    expressions, fields = one.get("matchExpressions") or [], one.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(holds(condition, labels) for condition in expressions) and all(
        holds(condition, {"metadata.name": node}) for condition in fields
    )


def admits(spec: dict[str, Any], labels: dict[str, str], node: str = "") -> bool:
    """Whether the node selector and the required node affinity of a Pod let it onto a node."""
    selector = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(REQUIRED)
    return required is None or any(term_matches(one, labels, node) for one in required.get("nodeSelectorTerms") or [])
