"""The planner: where a Pod must run, what of its own spec stands against that, and the spec with the affinity added.

Pure. The webhook and the reconcilers plan with it alike. What it adds never lets a Pod onto a node that its own spec
keeps it from: terms are alternatives, so the conditions go into every one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from app.placement.conflicts import conflicts
from app.placement.model import PlacementOptions, PodSpec, Requirement, Term
from app.wire import JSON

NODE_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
"""Where the required affinity stands in a Pod's spec."""
TERMS = "nodeSelectorTerms"
EXPRESSIONS = "matchExpressions"
NEW = -1
"""In place of the index of a term: a new one."""


def requirements(*, host: str | None, tenant: str | None, options: PlacementOptions) -> tuple[Requirement, ...]:
    """What the node must carry to be a DPU of `host` and one of `tenant`.

    None means no such requirement, and so does an empty tenant. The name of a host is not checked here, and an
    empty one is no exemption: `contradictions` tells of names that no label can have.
    """
    wanted: list[Requirement] = []
    if host is not None:
        wanted.append(Requirement(options.host_label, host))
    if tenant and options.tenant_node_label:
        wanted.append(Requirement(options.tenant_node_label, tenant))
    return tuple(wanted)


def contradictions(spec: JSON, wanted: Sequence[Requirement], path: str = "spec") -> list[str]:
    """Why a Pod with this spec can never run where it must, and what would be right; empty where it can.

    A line begins with the path of its field, or, for a name that no label can have, with the label. A spec that cannot
    be read is told in the one line that there is then.
    """
    try:
        view = view_of(spec)
    except ValueError as error:
        return [f"{path}: {error}"]
    return list(conflicts(view, wanted, path))


def placed(spec: JSON, wanted: Sequence[Requirement]) -> JSON:
    """A new Pod spec with the requirements in its required node affinity; the input is not changed, but shared.

    What is there already is not added again. Raises ValueError where the affinity cannot be read.
    """
    additions = missing(view_of(spec), wanted)
    result = holder = dict(spec)
    if not additions:
        return result
    for member in NODE_AFFINITY:
        holder[member] = dict(holder.get(member) or {})
        holder = holder[member]
    terms = holder[TERMS] = list(holder.get(TERMS) or ())
    for index, lacking in additions.items():
        if index == NEW:
            terms.append(new_term(lacking))
        else:
            own = terms[index].get(EXPRESSIONS) or ()
            terms[index] = {**terms[index], EXPRESSIONS: [*own, *map(expression, lacking)]}
    return result


def view_of(spec: JSON) -> PodSpec:
    """The part of a spec that decides. Raises ValueError where it has another shape than a Pod's."""
    try:
        return msgspec.convert(spec, PodSpec)
    except msgspec.ValidationError as error:
        raise ValueError(f"not the spec of a Pod: {error}") from error


def missing(spec: PodSpec, wanted: Iterable[Requirement]) -> dict[int, tuple[Requirement, ...]]:
    """By index of the term (`NEW` where there is none yet), what it lacks.

    An empty term stays as it is: it matches no node, and a condition would make it match some.
    """
    wanted = tuple(wanted)
    terms = spec.terms
    if not terms:
        return {NEW: wanted} if wanted else {}
    lacking = {
        index: tuple(one for one in wanted if not _implies(term, one))
        for index, term in enumerate(terms)
        if not term.empty
    }
    return {index: some for index, some in lacking.items() if some}


def expression(one: Requirement) -> JSON:
    """The requirement as an expression of a node selector term."""
    return {"key": one.key, "operator": "In", "values": [one.value]}


def new_term(wanted: Iterable[Requirement]) -> JSON:
    return {EXPRESSIONS: [expression(one) for one in wanted]}


def _implies(term: Term, one: Requirement) -> bool:
    """Whether the expressions of the term leave no other value for the key."""
    allowed: set[str] | None = None
    for own in term.match_expressions or ():
        if own.key == one.key and own.operator == "In":
            values = {value or "" for value in own.values or ()}
            allowed = values if allowed is None else allowed & values
    return allowed is not None and allowed <= {one.value}
