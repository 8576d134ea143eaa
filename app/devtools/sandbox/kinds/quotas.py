"""ResourceQuotas as an API server reads them: which objects count against one, and how much. Pure.

Counts of objects are known (`pods`, `secrets`, `count/<plural>.<group>`); sums of cpu, memory or storage are not.
Facts: kubernetes.io/docs/concepts/policy/resource-quotas; wording of kube-apiserver 1.36.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from app.kube.quantity import canonical, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from app.wire import JSON

Usage = dict[str, int]
"""How many objects count, by the name that a quota has for them."""

_ALIASES = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    }
)
"""Resources of the core group that a quota may also name without `count/`."""
_COUNT = re.compile(r"count/([a-z0-9-]+)(?:\.(.+))?", re.ASCII)
_TERMS = {
    "requiredDuringSchedulingIgnoredDuringExecution": "",
    "preferredDuringSchedulingIgnoredDuringExecution": "podAffinityTerm",
}


def counted_names(group: str, plural: str) -> tuple[str, ...]:
    """The names under which a quota may count objects of this resource."""
    name = f"count/{plural}.{group}" if group else f"count/{plural}"
    return (name, plural) if not group and plural in _ALIASES else (name,)


def counted_resource(name: str) -> tuple[str, str] | None:
    """Group and plural of what a name counts; None where it counts no objects."""
    if found := _COUNT.fullmatch(name):
        return found[2] or "", found[1]
    return ("", name) if name in counted_names("", name) else None


def usage(group: str, plural: str, obj: JSON | None) -> Usage:
    """What one object counts for; a Pod that has ended is no more one of `pods`. None is no object."""
    if obj is None:
        return {}
    ended = (group, plural) == ("", "pods") and (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return {name: 1 for name in counted_names(group, plural) if not (ended and name == "pods")}


def in_scope(quota: JSON, obj: JSON | None) -> bool:
    """Whether an object is of the scopes of a quota; one without scopes is for all objects."""
    return all(_is_of(name, obj or {}) for name in _scopes(quota["spec"]))


def counted(quota: JSON, objects: Mapping[tuple[str, str], Iterable[JSON]]) -> JSON:
    """The status of a quota when these are all the objects of its namespace, by group and plural."""
    bounds = quota["spec"].get("hard") or {}
    total = {name: 0 for name in bounds if counted_resource(name) in objects}
    for key, found in objects.items():
        for obj in found:
            if in_scope(quota, obj):
                for name in usage(*key, obj).keys() & total.keys():
                    total[name] += 1
    return {"hard": bounds, "used": {name: canonical(str(count)) for name, count in total.items()}}


def counted_resources(quota: JSON) -> set[tuple[str, str]]:
    """Group and plural of everything that a quota counts."""
    return {found for name in quota["spec"].get("hard") or {} if (found := counted_resource(name))}


def hard(quota: JSON) -> JSON:
    """The bounds that are enforced: those in the status, written by the component that counts."""
    return (quota.get("status") or {}).get("hard") or {}


def used(quota: JSON) -> JSON:
    return (quota.get("status") or {}).get("used") or {}


def refusal(quota: JSON, added: Usage) -> str:
    """Why a quota does not take these objects, "" where it does."""
    bounds, present = hard(quota), used(quota)
    names = sorted(set(added) & set(bounds))
    if any(name not in present for name in names):
        return f"status unknown for quota: {quota['metadata']['name']}, resources: {','.join(names)}"
    over = [name for name in names if parse(present[name]) + added[name] > parse(bounds[name])]
    if not over:
        return ""
    told = {
        "requested": {name: added[name] for name in over},
        "used": {name: present[name] for name in over},
        "limited": {name: bounds[name] for name in over},
    }
    shown = ", ".join(f"{word}: {','.join(f'{k}={v}' for k, v in of.items())}" for word, of in told.items())
    return f"exceeded quota: {quota['metadata']['name']}, {shown}"


def charged(quota: JSON, change: Usage) -> JSON:
    """What is used after a change of counts; never less than nothing."""
    present = used(quota)
    new = {name: max(parse(present[name]) + by, 0) for name, by in change.items() if name in present}
    return present | {name: canonical(str(value)) for name, value in new.items()}


def _scopes(spec: JSON) -> list[str]:
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return [*(spec.get("scopes") or []), *(one.get("scopeName", "") for one in selected)]


def _is_of(scope: str, obj: JSON) -> bool:
    """Only the scope of affinities across namespaces is known here; an object is of no other."""
    return scope == "CrossNamespacePodAffinity" and obj.get("kind") == "Pod" and any(map(_crosses, _terms(obj)))


def _terms(pod: JSON) -> Iterable[Any]:
    affinity = pod["spec"].get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        for field, inner in _TERMS.items():
            for term in (affinity.get(kind) or {}).get(field) or []:
                yield (term.get(inner) or {}) if inner else term


def _crosses(term: JSON) -> bool:
    """An empty selector of namespaces selects all of them."""
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None
