"""The planner: where a Pod must run, what of its own spec stands against that, and what its affinity lacks.

Pure. The webhook and the reconcilers plan with it alike. It goes by what the scheduler does: terms are alternatives, so
the conditions go into every one of them, and what is added never lets a Pod onto a node that its own spec keeps it
from. An empty term matches no node whatever is required: it contradicts nothing, and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from app.admission.patch import Patch
from app.errors import Denied
from app.kube.names import check_label_value
from app.placement.model import Expression, PlacementOptions, PodSpec, Requirement, Term
from app.text import quoted
from app.wire import JSON, pointer

_NODE_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_TERMS = "nodeSelectorTerms"
_EXPRESSIONS = "matchExpressions"
_TERMS_PATH = pointer("spec", *_NODE_AFFINITY, _TERMS)
TERMS_FIELD = ".".join((*_NODE_AFFINITY, _TERMS))
"""The path of the terms of the required affinity in a Pod's spec."""
_LINES = 10
"""Contradictions that a denial names."""
_NEW = -1
"""In place of the index of a term: a new one."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,256}", re.ASCII)
_INT64 = range(-(2**63), 2**63)


def requirements(*, host: str | None, tenant: str | None, options: PlacementOptions) -> tuple[Requirement, ...]:
    """What the node must carry to be a DPU of `host` and one of `tenant`.

    None means no such requirement, and so does an empty tenant. An empty host is no exemption: like any name that no
    label can have, it is a contradiction.
    """
    requirements_of_pod: list[Requirement] = []
    if host is not None:
        requirements_of_pod.append(Requirement(options.host_label, host))
    if tenant and options.tenant_node_label:
        requirements_of_pod.append(Requirement(options.tenant_node_label, tenant))
    return tuple(requirements_of_pod)


def view_of(spec: JSON) -> PodSpec:
    """The part of a spec that decides. Raises ValueError where it has another shape than a Pod's."""
    try:
        return msgspec.convert(spec, PodSpec)
    except msgspec.ValidationError as error:
        raise ValueError(f"not the spec of a Pod: {error}") from error


def contradictions(spec: JSON, requirements: Sequence[Requirement], path: str = "spec") -> list[str]:
    """Why a Pod with this spec can never run where it must, and what would be right: one line for each conflict.

    A line begins with the path of its field, or, for a name that no label can have, with the label. A spec that cannot
    be read has a line that says so.
    """
    try:
        view = view_of(spec)
    except ValueError as error:
        return [f"{path}: {error}"]
    return list(_conflicts(view, requirements, path))


def refuse_contradictions(spec: PodSpec | None, requirements: Mapping[Requirement, str]) -> None:
    """Raise Denied where a Pod can never run where it must; `requirements` maps each requirement to its reason."""
    lines = list(_conflicts(spec or PodSpec(), tuple(requirements), "spec"))
    if lines:
        more = [f"and {len(lines) - _LINES} more"] if len(lines) > _LINES else []
        reasons, contradictions = "; ".join(requirements.values()), "; ".join(lines[:_LINES] + more)
        raise Denied(
            f"the Pod contradicts where it has to run ({reasons}): {contradictions}", reason="PlacementContradiction"
        )


def _conflicts(spec: PodSpec, requirements: Sequence[Requirement], path: str) -> Iterator[str]:
    for requirement in requirements:
        yield from _impossible(requirement)
    if requirements and spec.node_name:
        labels = " and ".join(f"{requirement.key}={quoted(requirement.value)[1:-1]}" for requirement in requirements)
        yield (
            f"{path}.nodeName: {quoted(spec.node_name)} bypasses the scheduler, which chooses a node with the label "
            f"{labels}: leave nodeName out"
        )
    selector = spec.node_selector or {}
    for requirement in requirements:
        own = selector.get(requirement.key, requirement.value) or ""
        if own != requirement.value:
            yield (
                f"{path}.nodeSelector[{requirement.key}]: want {quoted(requirement.value)} or no such entry, "
                f"got {quoted(own)}"
            )
    for index, term in enumerate(spec.terms):
        for position, expression in enumerate(term.match_expressions or ()):
            for requirement in requirements:
                if expression.key == requirement.key and not can_hold(expression, requirement.value):
                    at = f"{path}.{TERMS_FIELD}[{index}].{_EXPRESSIONS}[{position}]"
                    yield (
                        f"{at}: {_written(expression)} never holds where {requirement.key} is "
                        f"{quoted(requirement.value)}, as it must be: remove the expression or the term"
                    )


def _impossible(requirement: Requirement) -> Iterator[str]:
    """A value that no label can have."""
    if not requirement.value:
        yield f"label {requirement.key}: want a name, got an empty text"
        return
    try:
        check_label_value(requirement.value)
    except ValueError as error:
        yield f"label {requirement.key}: no node can have it with this name: {error}"


def can_hold(expression: Expression, value: str) -> bool:
    """Whether a node whose label has this value fulfills the expression, as the scheduler evaluates it.

    What the API server refuses anyway (an unknown operator) is not judged.
    """
    values = [text or "" for text in expression.values or ()]
    match expression.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "DoesNotExist":
            return False
        case "Gt" | "Lt" if len(values) == 1:
            label, bound = _integer(value), _integer(values[0])
            if label is None or bound is None:
                return False
            return label > bound if expression.operator == "Gt" else label < bound
        case _:
            return True


def _integer(text: str) -> int | None:
    """As the scheduler reads integers: 64 bits, decimal."""
    if not _INTEGER.fullmatch(text) or int(text) not in _INT64:
        return None
    return int(text)


def _written(expression: Expression) -> str:
    values = [value or "" for value in expression.values or ()]
    return f"{expression.operator} {quoted(', '.join(values))}" if values else str(expression.operator)


def placed(spec: JSON, requirements: Sequence[Requirement]) -> JSON:
    """A new Pod spec with the requirements in its required node affinity; the input is not changed, but shared.

    What is there already is not added again. Raises ValueError where the affinity cannot be read.
    """
    additions = _missing(view_of(spec), requirements)
    result = holder = dict(spec)
    if not additions:
        return result
    for member in _NODE_AFFINITY:
        holder[member] = dict(holder.get(member) or {})
        holder = holder[member]
    terms = holder[_TERMS] = list(holder.get(_TERMS) or ())
    for index, lacking in additions.items():
        if index == _NEW:
            terms.append(_new_term(lacking))
        else:
            own = terms[index].get(_EXPRESSIONS) or ()
            terms[index] = {**terms[index], _EXPRESSIONS: [*own, *map(_expression, lacking)]}
    return result


def plan_affinity(
    spec: PodSpec | None, requirements: Mapping[Requirement, str], patch: Patch
) -> tuple[Requirement, ...]:
    """Plan what the Pod lacks of `requirements`, which maps each requirement to its reason; returns what was lacking.

    Goes by the object as it came in: no other injector may plan required node affinity into the same patch.
    """
    spec, has_spec = spec or PodSpec(), spec is not None
    lacking: dict[Requirement, None] = {}
    for index, some in _missing(spec, requirements).items():
        reason = "; ".join(requirements[requirement] for requirement in some)
        lacking.update(dict.fromkeys(some))
        if index == _NEW:
            _make_room(spec, patch, has_spec=has_spec, reason=reason)
            patch.add(f"{_TERMS_PATH}/-", _new_term(some), reason=reason)
            continue
        path = f"{_TERMS_PATH}/{index}/{_EXPRESSIONS}"
        patch.ensure(path, [], present=spec.terms[index].match_expressions is not None, reason=reason)
        for requirement in some:
            patch.add(f"{path}/-", _expression(requirement), reason=requirements[requirement])
    return tuple(lacking)


def _make_room(spec: PodSpec, patch: Patch, *, has_spec: bool, reason: str) -> None:
    """Everything down to the list of terms; a null member counts as absent and is replaced."""
    affinity, required = spec.affinity, spec.required
    has_terms = required is not None and required.node_selector_terms is not None
    holders = (has_spec, affinity is not None, bool(affinity and affinity.node_affinity), required is not None)
    for depth, present in enumerate(holders):
        patch.ensure(pointer("spec", *_NODE_AFFINITY[:depth]), {}, present=present, reason=reason)
    patch.ensure(_TERMS_PATH, [], present=has_terms, reason=reason)


def _missing(spec: PodSpec, requirements: Iterable[Requirement]) -> dict[int, tuple[Requirement, ...]]:
    """By index of the term (`_NEW` where there is none yet), what it lacks."""
    requirements = tuple(requirements)
    terms = spec.terms
    if not terms:
        return {_NEW: requirements} if requirements else {}
    lacking = {
        index: tuple(requirement for requirement in requirements if not _implies(term, requirement))
        for index, term in enumerate(terms)
        if not term.empty
    }
    return {index: some for index, some in lacking.items() if some}


def _expression(requirement: Requirement) -> JSON:
    return {"key": requirement.key, "operator": "In", "values": [requirement.value]}


def _new_term(requirements: Iterable[Requirement]) -> JSON:
    return {_EXPRESSIONS: [_expression(requirement) for requirement in requirements]}


def _implies(term: Term, requirement: Requirement) -> bool:
    """Whether the expressions of the term leave no other value for the key."""
    allowed: set[str] | None = None
    for own in term.match_expressions or ():
        if own.key == requirement.key and own.operator == "In":
            values = {value or "" for value in own.values or ()}
            allowed = values if allowed is None else allowed & values
    return allowed is not None and allowed <= {requirement.value}
