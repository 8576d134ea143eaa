"""Workloads and rules as the tests of the matcher need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.wire import encode_json
from app.workloads.model import Expression, Injection, Operator, Rule, Term, Workload, workload_name


def workload(
    name: str, *, tenant: str = "a", labels: dict[str, str] | None = None, node: str = "", extra: Any = None
) -> Workload:
    metadata = {"id": f"id-{name}", "resourceName": name, "resourceNamespace": "default", "resourceType": "v1/Pod"}
    state: dict[str, Any] = {"ready": True, "extra": {"labels": labels or {}, "more": extra}}
    if node:
        state["nodeName"] = node
    document = encode_json({"metadata": metadata, "state": state})
    return Workload(f"tenant-{tenant}", workload_name(f"id-{name}"), f"id-{name}", node, document)


def where(key: str, operator: Operator = "In", *values: str) -> Expression:
    return Expression(key, operator, frozenset(values))


def rule(
    name: str,
    *terms: Iterable[Expression],
    tenant: str = "a",
    tenants: Iterable[str] | None = None,
    admin: bool = False,
    generation: int = 1,
) -> Rule:
    return Rule(
        kind="admin" if admin else "tenant",
        namespace="universe" if admin else f"tenant-{tenant}",
        name=name,
        generation=generation,
        tenants=(None if tenants is None else frozenset(tenants)) if admin else frozenset({tenant}),
        terms=tuple(Term(tuple(term)) for term in terms),
        injections=(Injection("@", "x"),),
        policy="Any",
        template=b"{}",
    )


def named(name: str, value: str, **more: Any) -> Rule:
    return rule(name, [where("metadata.resourceName", "In", value)], **more)


def ids(rules: Iterable[Rule]) -> list[str]:
    return [found.id for found in rules]


# --- what holds ---
