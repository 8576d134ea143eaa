"""Writes the planner's result as JSON Patch operations, each with the reason for its requirement. Pure.

Goes by the object as it came in: no other injector may plan required node affinity into the same patch.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.admission.patch import Patch, pointer
from app.placement.model import PodSpec, Requirement
from app.placement.plan import EXPRESSIONS, NEW, NODE_AFFINITY, TERMS, expression, missing, new_term

_TERMS_PATH = pointer("spec", *NODE_AFFINITY, TERMS)


def plan_affinity(spec: PodSpec | None, wanted: Mapping[Requirement, str], patch: Patch) -> tuple[Requirement, ...]:
    """Plan what the Pod lacks of `wanted`, which maps each requirement to its reason; returns what was lacking."""
    spec, has_spec = spec or PodSpec(), spec is not None
    lacking: dict[Requirement, None] = {}
    for index, some in missing(spec, wanted).items():
        reason = "; ".join(wanted[one] for one in some)
        lacking.update(dict.fromkeys(some))
        if index == NEW:
            _make_room(spec, patch, has_spec=has_spec, reason=reason)
            patch.add(f"{_TERMS_PATH}/-", new_term(some), reason=reason)
            continue
        path = f"{_TERMS_PATH}/{index}/{EXPRESSIONS}"
        patch.ensure(path, [], present=spec.terms[index].match_expressions is not None, reason=reason)
        for one in some:
            patch.add(f"{path}/-", expression(one), reason=wanted[one])
    return tuple(lacking)


def _make_room(spec: PodSpec, patch: Patch, *, has_spec: bool, reason: str) -> None:
    """Everything down to the list of terms; a null member counts as absent and is replaced."""
    affinity, required = spec.affinity, spec.required
    has_terms = required is not None and required.node_selector_terms is not None
    holders = (has_spec, affinity is not None, bool(affinity and affinity.node_affinity), required is not None)
    for depth, present in enumerate(holders):
        patch.ensure(pointer("spec", *NODE_AFFINITY[:depth]), {}, present=present, reason=reason)
    patch.ensure(_TERMS_PATH, [], present=has_terms, reason=reason)
