"""Finds all faults of a rule's spec at once, each with the path of its field; the template is not checked here.

Takes any JSON and returns lines for people. Annotations in the domains of Kubernetes and of Berth cannot be injected,
not even by an admin's rule, because the value comes from the tenant. Annotations in `k8s.v1.cni.cncf.io/…`, another
project's domain, can be injected: a companion may use the networks of its workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from app.kube.names import check_annotation_key, check_dns_label, domain_above
from app.text import cut
from app.workloads.model import ALL_TENANTS, RESERVED_DOMAINS, RESOURCE_TYPE, TENANT_NAMESPACE_PREFIX, RuleKind
from app.workloads.rules.keys import compile_key

MAX_TERMS = 32
MAX_EXPRESSIONS = 32
"""Of one term."""
MAX_VALUES = 256
"""Of one expression."""
MAX_VALUE_LENGTH = 1024
MAX_INJECTIONS = 32
MAX_TENANTS = 1024
MAX_COMPUTED = 4
"""Different keys of a rule's terms, and of its injections, that are more than a path: each may cost the whole budget of
an evaluation."""
MAX_TENANT_NAME = 63 - len(TENANT_NAMESPACE_PREFIX)
"""Characters: the tenant's namespace is a DNS label."""

_FOREIGN_DOMAINS = ("kubernetes.io", "k8s.io")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_POLICIES = ("Any", "SameNode")


def rule_problems(spec: Any, *, kind: RuleKind, path: str = "spec") -> list[str]:
    """What is wrong with the spec of a WorkloadRule, TenantWorkloadRule (`tenant`) or AdminWorkloadRule (`admin`)."""
    if not isinstance(spec, dict):
        return [f"{path}: must be an object"]
    return [
        *_resource_type(spec.get("resourceType"), f"{path}.resourceType"),
        *_terms(spec.get("workloadTerms"), f"{path}.workloadTerms"),
        *_injections(spec.get("workloadInfoInject"), f"{path}.workloadInfoInject"),
        *_computed(spec, path),
        *_policy(spec.get("dpuSelectionPolicy"), f"{path}.dpuSelectionPolicy"),
        *(_tenant_match(spec.get("tenantMatch"), f"{path}.tenantMatch") if kind == "admin" else ()),
        *(_no_tenant_match(spec, f"{path}.tenantMatch") if kind == "tenant" else ()),
    ]


def _resource_type(value: Any, path: str) -> Iterator[str]:
    if value != RESOURCE_TYPE:
        yield f"{path}: must be {RESOURCE_TYPE}, not {_shown(value)}" if value else f"{path}: must be {RESOURCE_TYPE}"


def _terms(terms: Any, path: str) -> Iterator[str]:
    yield from _list_problems(terms, path, MAX_TERMS, "a rule without terms would match nothing: give at least one")
    for at, term in _entries(terms, MAX_TERMS):
        here = f"{path}[{at}]"
        if not isinstance(term, dict):
            yield f"{here}: must be an object"
            continue
        expressions = term.get("matchExpressions")
        here = f"{here}.matchExpressions"
        empty = "an empty term would match nothing: give at least one expression"
        yield from _list_problems(expressions, here, MAX_EXPRESSIONS, empty)
        for index, expression in _entries(expressions, MAX_EXPRESSIONS):
            yield from _expression(expression, f"{here}[{index}]")


def _expression(expression: Any, path: str) -> Iterator[str]:
    if not isinstance(expression, dict):
        yield f"{path}: must be an object"
        return
    yield from _key(expression.get("key"), f"{path}.key")
    operator, values = expression.get("operator"), expression.get("values")
    if operator not in _OPERATORS:
        yield f"{path}.operator: must be one of {', '.join(_OPERATORS)}, not {_shown(operator)}"
    elif operator in ("In", "NotIn"):
        yield from _list_problems(values, f"{path}.values", MAX_VALUES, f"{operator} needs at least one value")
    elif values:
        yield f"{path}.values: {operator} takes no values"
    elif values is not None and not isinstance(values, list):
        yield f"{path}.values: must be a list"
    for at, value in _entries(values, MAX_VALUES):
        if not isinstance(value, str):
            yield f'{path}.values[{at}]: must be a string, not {_shown(value)}: write "true", "1" in quotes'
        elif len(value) > MAX_VALUE_LENGTH:
            yield f"{path}.values[{at}]: has {len(value)} characters: at most {MAX_VALUE_LENGTH}"


def _injections(injections: Any, path: str) -> Iterator[str]:
    if injections is None:
        return
    yield from _list_problems(injections, path, MAX_INJECTIONS, None)
    seen: dict[str, int] = {}
    for at, injection in _entries(injections, MAX_INJECTIONS):
        here = f"{path}[{at}]"
        if not isinstance(injection, dict):
            yield f"{here}: must be an object"
            continue
        yield from _key(injection.get("workloadKey"), f"{here}.workloadKey")
        target = injection.get("asAnnotation")
        if not isinstance(target, dict):
            yield f"{here}.asAnnotation: must be an object with a name"
            continue
        name = target.get("name")
        yield from _annotation(name, f"{here}.asAnnotation.name")
        if isinstance(name, str) and seen.setdefault(name, at) != at:
            yield f"{here}.asAnnotation.name: {_shown(name)} is also what {path}[{seen[name]}] writes"


def _annotation(name: Any, path: str) -> Iterator[str]:
    if not isinstance(name, str):
        yield f"{path}: must be a string"
        return
    try:
        check_annotation_key(name)
    except ValueError as error:
        yield f"{path}: {error}"
        return
    domain = domain_above(name, (*RESERVED_DOMAINS, *_FOREIGN_DOMAINS))
    if domain is not None:
        yield f"{path}: {_shown(name)} is reserved: annotations below {domain} cannot be injected"


def _computed(spec: Any, path: str) -> Iterator[str]:
    for name, keys in (("workloadTerms", match_keys(spec)), ("workloadInfoInject", _inject_keys(spec))):
        count = len(computed_keys(keys))
        if count > MAX_COMPUTED:
            yield (
                f"{path}.{name}: has {count} different keys that are more than a path of names: at most "
                f"{MAX_COMPUTED}, for every workload has to be searched with each of them"
            )


def computed_keys(texts: Iterable[str]) -> frozenset[str]:
    """Those that are more than a path of names; what is no key is left out."""
    return frozenset(filter(_computes, texts))


def match_keys(spec: Any) -> Iterator[str]:
    """The keys of the terms, as they come."""
    for _, term in _entries(spec.get("workloadTerms"), MAX_TERMS):
        expressions = term.get("matchExpressions") if isinstance(term, dict) else None
        for _, expression in _entries(expressions, MAX_EXPRESSIONS):
            if isinstance(expression, dict) and isinstance(expression.get("key"), str):
                yield expression["key"]


def _inject_keys(spec: Any) -> Iterator[str]:
    for _, injection in _entries(spec.get("workloadInfoInject"), MAX_INJECTIONS):
        if isinstance(injection, dict) and isinstance(injection.get("workloadKey"), str):
            yield injection["workloadKey"]


def _computes(text: str) -> bool:
    try:
        return compile_key(text).path is None
    except ValueError:
        return False


def _policy(value: Any, path: str) -> Iterator[str]:
    if value not in (None, "", *_POLICIES):
        yield f"{path}: must be one of {', '.join(_POLICIES)}, not {_shown(value)}"


def _tenant_match(tenants: Any, path: str) -> Iterator[str]:
    yield from _list_problems(tenants, path, MAX_TENANTS, f'name at least one tenant, or "{ALL_TENANTS}" for all')
    if tenants == [ALL_TENANTS]:
        return
    for at, tenant in _entries(tenants, MAX_TENANTS):
        here = f"{path}[{at}]"
        if not isinstance(tenant, str):
            yield f"{here}: must be a string"
        elif tenant == ALL_TENANTS:
            yield f'{here}: "{ALL_TENANTS}" must stand alone'
        elif len(tenant) > MAX_TENANT_NAME:
            most = f"the name of a tenant has at most {MAX_TENANT_NAME}"
            yield f"{here}: {_shown(tenant)} has {len(tenant)} characters: {most}"
        else:
            try:
                check_dns_label(tenant)
            except ValueError as error:
                yield f"{here}: {error}"


def _no_tenant_match(spec: Any, path: str) -> Iterator[str]:
    if spec.get("tenantMatch") is not None:
        yield f"{path}: only a rule of the admin names tenants"


def _key(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path}: must be a string"
        return
    try:
        compile_key(value)
    except ValueError as error:
        yield f"{path}: {error}"


def _list_problems(value: Any, path: str, limit: int, empty: str | None) -> Iterator[str]:
    if value is not None and not isinstance(value, list):
        yield f"{path}: must be a list"
    elif not value and empty is not None:
        yield f"{path}: {empty}"
    elif value is not None and len(value) > limit:
        yield f"{path}: has {len(value)} entries: at most {limit}"


def _entries(value: Any, limit: int) -> Iterator[tuple[int, Any]]:
    """The entries that are looked at: those within the limit, so that a huge list costs and says no more."""
    if isinstance(value, list):
        yield from enumerate(value[:limit])


def _shown(value: Any) -> str:
    return cut(repr(value))
