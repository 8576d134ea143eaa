"""Rules as objects: what is wrong with one, and the parsed Rule of a valid one.

Everything of a rule but its template, which `templates` judges. Pure; the same check stands at admission, at the
gateway and before the controller uses a stored rule.
"""

from __future__ import annotations

from typing import Any

from app.errors import Terminal
from app.wire import JSON, encode_sorted
from app.workloads.model import (
    ALL_TENANTS,
    TENANT_NAMESPACE_PREFIX,
    Expression,
    Injection,
    Rule,
    RuleKind,
    Term,
    tenant_name,
)
from app.workloads.rules.problems import rule_problems


class RuleError(Terminal):
    """A stored rule that cannot be used; `problems` are all of them, each beginning with the path of its field."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def parse_rule(obj: JSON, *, kind: RuleKind) -> Rule:
    """The Rule of a TenantWorkloadRule or AdminWorkloadRule as it is stored; raises RuleError.

    `spec.template` only has to be an object here. Where `dpuSelectionPolicy` is missing or empty it is Any.
    """
    spec: Any = obj.get("spec")
    problems = rule_problems(spec, kind=kind) + _own_problems(obj, kind)
    if problems:
        raise RuleError(problems)
    metadata = obj["metadata"]
    namespace: str = metadata["namespace"]
    return Rule(
        kind=kind,
        namespace=namespace,
        name=metadata["name"],
        generation=metadata.get("generation") or 0,
        tenants=_tenants(spec, namespace, kind),
        terms=tuple(
            Term(
                tuple(
                    Expression(found["key"], found["operator"], frozenset(found.get("values") or ()))
                    for found in term["matchExpressions"]
                )
            )
            for term in spec["workloadTerms"]
        ),
        injections=tuple(
            Injection(entry["workloadKey"], entry["asAnnotation"]["name"])
            for entry in spec.get("workloadInfoInject") or ()
        ),
        policy=spec.get("dpuSelectionPolicy") or "Any",
        template=encode_sorted(spec["template"]),
    )


def _own_problems(obj: JSON, kind: RuleKind) -> list[str]:
    """What the object around the spec must have; the API server sees to it, hand-made objects may not."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return ["metadata: must be an object"]
    namespace, name = metadata.get("namespace"), metadata.get("name")
    problems = [
        f"metadata.{field}: must not be empty"
        for field, value in (("namespace", namespace), ("name", name))
        if not isinstance(value, str) or not value
    ]
    if kind == "tenant" and isinstance(namespace, str) and not namespace.startswith(TENANT_NAMESPACE_PREFIX):
        problems.append(f"metadata.namespace: must be that of a tenant: {TENANT_NAMESPACE_PREFIX}<name>")
    generation = metadata.get("generation")
    if generation is not None and (not isinstance(generation, int) or isinstance(generation, bool)):
        problems.append("metadata.generation: must be a whole number")
    spec = obj.get("spec")
    if isinstance(spec, dict) and not isinstance(spec.get("template"), dict):
        problems.append("spec.template: must be an object: a Pod manifest")
    return problems


def _tenants(spec: JSON, namespace: str, kind: RuleKind) -> frozenset[str] | None:
    if kind == "tenant":
        return frozenset({tenant_name(namespace)})
    return None if spec["tenantMatch"] == [ALL_TENANTS] else frozenset(spec["tenantMatch"])
