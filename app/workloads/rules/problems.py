"""Finds all faults of a rule at once, each with the path of its field, and parses a valid one; not its template.

Takes any JSON and returns lines for people; the same check stands at admission, at the gateway and before the
controller uses a stored rule. Annotations in the domains of Kubernetes and of Berth cannot be injected,
not even by an admin's rule, because the value comes from the tenant. Annotations in `k8s.v1.cni.cncf.io/…`, another
project's domain, can be injected: a companion may use the networks of its workload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

from app.errors import Terminal
from app.kube.names import check_annotation_key, check_dns_label, check_dns_subdomain, domain_above
from app.pace import step
from app.text import cut
from app.wire import JSON, encode_sorted
from app.workloads.model import (
    ALL_TENANTS,
    RESERVED_DOMAINS,
    RESOURCE_TYPE,
    TENANT_NAMESPACE_PREFIX,
    Expression,
    Injection,
    Operator,
    Policy,
    Rule,
    RuleKind,
    tenant_name,
)
from app.workloads.rules.key_syntax import plain_names
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
MAX_PARSED = 32
"""Different keys of the same that are not written as a plain path: wrong ones, and those that compute."""
MAX_TENANT_NAME = 63 - len(TENANT_NAMESPACE_PREFIX)
"""Characters: the tenant's namespace is a DNS label."""

_FOREIGN_DOMAINS = ("kubernetes.io", "k8s.io")
_OPERATORS = get_args(Operator)
_POLICIES = get_args(Policy)


class _Problems(list[str]):
    """One line for each problem, in the order of the fields."""

    def entries(self, value: Any, path: str, limit: int, *, empty: str = "") -> Iterator[tuple[str, Any]]:
        """The entries of a list within its limit, with their paths: a longer list costs and says no more.

        `empty` is what is wrong with a list that has none.
        """
        if value is not None and not isinstance(value, list):
            self.append(f"{path}: must be a list")
            return
        if not value and empty:
            self.append(f"{path}: {empty}")
        elif value is not None and len(value) > limit:
            self.append(f"{path}: has {len(value)} entries: at most {limit}")
        for at, entry in enumerate((value or ())[:limit]):
            step()
            yield f"{path}[{at}]", entry

    def objects(self, value: Any, path: str, limit: int, *, empty: str = "") -> Iterator[tuple[str, JSON]]:
        for here, entry in self.entries(value, path, limit, empty=empty):
            if isinstance(entry, dict):
                yield here, entry
            else:
                self.append(f"{here}: must be an object")

    def check(self, value: Any, path: str, check: Callable[[str], object]) -> bool:
        """Whether the value is a string for which `check` raises no ValueError."""
        if not isinstance(value, str):
            self.append(f"{path}: must be a string")
            return False
        try:
            check(value)
        except ValueError as error:
            self.append(f"{path}: {error}")
            return False
        return True


def rule_problems(spec: Any, *, kind: RuleKind, path: str = "spec") -> list[str]:
    """What is wrong with the spec of a WorkloadRule, TenantWorkloadRule (`tenant`) or AdminWorkloadRule (`admin`)."""
    if not isinstance(spec, dict):
        return [f"{path}: must be an object"]
    problems = _Problems()
    if (resource := spec.get("resourceType")) != RESOURCE_TYPE:
        problems.append(
            f"{path}.resourceType: must be {RESOURCE_TYPE}" + (f", not {cut(repr(resource))}" if resource else "")
        )
    injected = [*_keys(spec.get("workloadInfoInject"), "workloadKey", MAX_INJECTIONS)]
    crowded = [*_crowded(f"{path}.workloadTerms", match_keys(spec)), *_crowded(f"{path}.workloadInfoInject", injected)]
    if crowded:
        return [*problems, *crowded]
    _terms(spec.get("workloadTerms"), f"{path}.workloadTerms", problems)
    _injections(spec.get("workloadInfoInject"), f"{path}.workloadInfoInject", problems)
    for name, keys in (("workloadTerms", match_keys(spec)), ("workloadInfoInject", injected)):
        if (count := len(computed_keys(keys))) > MAX_COMPUTED:
            problems.append(
                f"{path}.{name}: has {count} different keys that are more than a path of names: at most "
                f"{MAX_COMPUTED}, for every workload has to be searched with each of them"
            )
    policy = spec.get("dpuSelectionPolicy")
    if policy not in (None, "", *_POLICIES):
        problems.append(f"{path}.dpuSelectionPolicy: must be one of {', '.join(_POLICIES)}, not {cut(repr(policy))}")
    if kind == "admin":
        _tenant_match(spec.get("tenantMatch"), f"{path}.tenantMatch", problems)
    elif spec.get("tenantMatch") is not None:
        problems.append(f"{path}.tenantMatch: only a rule of the admin names tenants")
    return problems


def _crowded(path: str, keys: Iterable[str]) -> Iterator[str]:
    """Before any key is parsed: a parser takes a hundred times as long for one that is no plain path."""
    count = len({key for key in keys if plain_names(key) is None})
    if count > MAX_PARSED:
        yield f"{path}: has {count} different keys that are not written as a path of names: at most {MAX_PARSED}"


def name_problems(name: Any, path: str = "metadata.name") -> list[str]:
    """Why the name of a rule cannot become the beginning of a Pod's name. Long ones can: they are shortened there."""
    try:
        check_dns_subdomain(name if isinstance(name, str) else "")
    except ValueError as error:
        return [f"{path}: {error}"]
    return []


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
    seen = {tenant_name(namespace)} if kind == "tenant" else spec["tenantMatch"]
    all_tenants = kind == "admin" and seen == [ALL_TENANTS]
    return Rule(
        kind=kind,
        namespace=namespace,
        name=metadata["name"],
        generation=metadata.get("generation") or 0,
        tenants=None if all_tenants else frozenset(seen),
        terms=tuple(
            tuple(
                Expression(expression["key"], expression["operator"], frozenset(expression.get("values") or ()))
                for expression in term["matchExpressions"]
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


def computed_keys(texts: Iterable[str]) -> frozenset[str]:
    """Those that are more than a path of names; what is not a key is left out."""
    return frozenset(filter(_computes, texts))


def match_keys(spec: Any) -> Iterator[str]:
    """The keys of the terms, in their order."""
    for _, term in _Problems().objects(spec.get("workloadTerms"), "", MAX_TERMS):
        yield from _keys(term.get("matchExpressions"), "key", MAX_EXPRESSIONS)


def _keys(entries: Any, field: str, limit: int) -> Iterator[str]:
    for _, entry in _Problems().objects(entries, "", limit):
        if isinstance(key := entry.get(field), str):
            yield key


def _computes(text: str) -> bool:
    try:
        return compile_key(text).path is None
    except ValueError:
        return False


def _terms(terms: Any, path: str, problems: _Problems) -> None:
    empty = "a rule without terms would match nothing: give at least one"
    for here, term in problems.objects(terms, path, MAX_TERMS, empty=empty):
        empty, where = "an empty term would match nothing: give at least one expression", f"{here}.matchExpressions"
        for at, expression in problems.objects(term.get("matchExpressions"), where, MAX_EXPRESSIONS, empty=empty):
            _expression(expression, at, problems)


def _expression(expression: JSON, path: str, problems: _Problems) -> None:
    problems.check(expression.get("key"), f"{path}.key", compile_key)
    operator, values = expression.get("operator"), expression.get("values")
    of_list, empty = _Problems(), ""
    if operator not in _OPERATORS:
        problems.append(f"{path}.operator: must be one of {', '.join(_OPERATORS)}, not {cut(repr(operator))}")
    elif operator in ("In", "NotIn"):
        of_list, empty = problems, f"{operator} needs at least one value"
    elif values:
        problems.append(f"{path}.values: {operator} takes no values")
    else:
        of_list = problems
    for here, value in of_list.entries(values, f"{path}.values", MAX_VALUES, empty=empty):
        if not isinstance(value, str):
            problems.append(f'{here}: must be a string, not {cut(repr(value))}: write "true", "1" in quotes')
        elif len(value) > MAX_VALUE_LENGTH:
            problems.append(f"{here}: has {len(value)} characters: at most {MAX_VALUE_LENGTH}")


def _injections(injections: Any, path: str, problems: _Problems) -> None:
    seen: dict[str, str] = {}
    for here, injection in problems.objects(injections, path, MAX_INJECTIONS):
        problems.check(injection.get("workloadKey"), f"{here}.workloadKey", compile_key)
        target = injection.get("asAnnotation")
        if not isinstance(target, dict):
            problems.append(f"{here}.asAnnotation: must be an object with a name")
            continue
        name: Any = target.get("name")
        where = f"{here}.asAnnotation.name"
        if problems.check(name, where, check_annotation_key):
            domain = domain_above(name, (*RESERVED_DOMAINS, *_FOREIGN_DOMAINS))
            if domain is not None:
                problems.append(
                    f"{where}: {cut(repr(name))} is reserved: annotations below {domain} cannot be injected"
                )
        if isinstance(name, str) and seen.setdefault(name, here) != here:
            problems.append(f"{where}: {cut(repr(name))} is also what {seen[name]} writes")


def _tenant_match(tenants: Any, path: str, problems: _Problems) -> None:
    empty = f'name at least one tenant, or "{ALL_TENANTS}" for all'
    for here, tenant in problems.entries(tenants, path, MAX_TENANTS, empty=empty):
        if tenant == ALL_TENANTS:
            if tenants != [ALL_TENANTS]:
                problems.append(f'{here}: "{ALL_TENANTS}" must stand alone')
        elif isinstance(tenant, str) and len(tenant) > MAX_TENANT_NAME:
            most = f"the name of a tenant has at most {MAX_TENANT_NAME}"
            problems.append(f"{here}: {cut(repr(tenant))} has {len(tenant)} characters: {most}")
        else:
            problems.check(tenant, here, check_dns_label)
