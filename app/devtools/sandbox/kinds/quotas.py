"""ResourceQuotas as an API server reads them: which objects are in their scope, and for which they have room. Pure.

What an object counts for is in `quotausage`. Facts: kubernetes.io/docs/concepts/policy/resource-quotas; wording of
kube-apiserver 1.36.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.devtools.sandbox.kinds.quotausage import PODS, bounded_resource, missing, usage
from app.kinds.requests import quality_of_service
from app.kube.quantity import parse, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from app.devtools.sandbox.kinds.quotausage import Key, Usage
    from app.wire import JSON

_TERMS = {
    "requiredDuringSchedulingIgnoredDuringExecution": "",
    "preferredDuringSchedulingIgnoredDuringExecution": "podAffinityTerm",
}


def in_scope(quota: JSON, obj: JSON | None) -> bool:
    """Whether an object is of the scopes of a quota; one without scopes is for all objects."""
    return all(_is_of(name, obj or {}) for name in _scopes(quota["spec"]))


def counted(quota: JSON, objects: Mapping[Key, Iterable[JSON]]) -> JSON:
    """The status of a quota when these are all the objects of its namespace, by group and plural."""
    bounds = quota["spec"].get("hard") or {}
    sums = dict.fromkeys((name for name in bounds if bounded_resource(name) in objects), "0")
    for key, found in objects.items():
        for obj in found:
            if in_scope(quota, obj):
                one = usage(key, obj, sums)
                sums |= {name: total(sums[name], plus=one[name]) for name in one.keys() & sums.keys()}
    return {"hard": bounds, "used": sums}


def bounded_resources(quota: JSON) -> set[Key]:
    """Group and plural of everything that a quota bounds."""
    return {found for name in quota["spec"].get("hard") or {} if (found := bounded_resource(name))}


def hard(quota: JSON) -> JSON:
    """The bounds that are enforced: those in the status, written by the component that counts."""
    return (quota.get("status") or {}).get("hard") or {}


def used(quota: JSON) -> JSON:
    return (quota.get("status") or {}).get("used") or {}


def bounds_of(quota: JSON, key: Key) -> list[str]:
    """The names of its enforced bounds that concern objects of this group and plural."""
    return sorted(name for name in hard(quota) if bounded_resource(name) == key)


def refusal(quota: JSON, key: Key, obj: JSON, old: JSON | None = None) -> str:
    """Why a quota has no room for an object, or for what it is to be in place of `old`; "" where it has."""
    bounds, present, name = hard(quota), used(quota), quota["metadata"]["name"]
    concerned = bounds_of(quota, key)
    if key == PODS and (lacking := missing(obj, concerned)):
        needed = "; ".join(f"{bound} for: {','.join(containers)}" for bound, containers in lacking.items())
        return f"failed quota: {name}: must specify {needed}"
    if any(bound not in present for bound in concerned):
        return f"status unknown for quota: {name}, resources: {','.join(concerned)}"
    after, before = usage(key, obj, concerned), usage(key, old, concerned)
    added = {one: total(after[one], minus=before.get(one, "0")) for one in concerned if one in after}
    over = [
        one for one, more in added.items() if parse(more) > 0 and parse(present[one]) + parse(more) > parse(bounds[one])
    ]
    if not over:
        return ""
    amounts = ", ".join(
        f"{word}: {','.join(f'{one}={amounts[one]}' for one in over)}"
        for word, amounts in (("requested", added), ("used", present), ("limited", bounds))
    )
    return f"exceeded quota: {name}, {amounts}"


def charged(quota: JSON, before: Usage, after: Usage) -> JSON:
    """What is used when an object counts for `after` instead of `before`; never less than nothing."""
    present = used(quota)
    new = {
        name: total(present[name], plus=after.get(name, "0"), minus=before.get(name, "0"))
        for name in (before.keys() | after.keys()) & present.keys()
    }
    return present | {name: "0" if parse(amount) < 0 else amount for name, amount in new.items()}


def _scopes(spec: JSON) -> list[JSON]:
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return [*({"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or []), *selected]


def _is_of(scope: JSON, obj: JSON) -> bool:
    """Only Pods are of a scope here."""
    spec: JSON = obj.get("spec") or {}
    if obj.get("kind") != "Pod":
        return False
    match scope.get("scopeName"):
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return quality_of_service(spec) == "BestEffort"
        case "NotBestEffort":
            return quality_of_service(spec) != "BestEffort"
        case "CrossNamespacePodAffinity":
            return any(map(_crosses, _terms(obj)))
        case "PriorityClass":
            return _selects(scope, spec.get("priorityClassName") or "")
    return False


def _selects(scope: JSON, priority_class: str) -> bool:
    values: list[str] = scope.get("values") or []
    match scope.get("operator"):
        case "In":
            return priority_class in values
        case "NotIn":
            return priority_class not in values
        case "Exists":
            return bool(priority_class)
    return not priority_class


def _terms(pod: JSON) -> Iterable[Any]:
    affinity = pod["spec"].get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        for field, inner in _TERMS.items():
            for term in (affinity.get(kind) or {}).get(field) or []:
                yield (term.get(inner) or {}) if inner else term


def _crosses(term: JSON) -> bool:
    """An empty selector of namespaces selects all of them."""
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None
