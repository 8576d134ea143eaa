"""Finds what in a Pod's own spec can never be fulfilled together with where it must run. Pure.

Goes by what the scheduler does: terms are alternatives, and each of them has to leave room for the requirement. An
empty term matches no node whatever is required, so it contradicts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from app.kube.names import check_label_value
from app.placement.model import Expression, PodSpec, Requirement
from app.text import quoted

TERMS_FIELD = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
_INTEGER = re.compile(r"[+-]?[0-9]{1,256}", re.ASCII)
_INT64 = range(-(2**63), 2**63)


def conflicts(spec: PodSpec, wanted: Sequence[Requirement], path: str) -> Iterator[str]:
    """One line for each conflict, beginning with the path of the field, saying what would be right."""
    for one in wanted:
        yield from _impossible(one)
    if wanted and spec.node_name:
        labels = " and ".join(f"{one.key}={quoted(one.value)[1:-1]}" for one in wanted)
        yield (
            f"{path}.nodeName: {quoted(spec.node_name)} bypasses the scheduler, which chooses a node with the label "
            f"{labels}: leave nodeName out"
        )
    selector = spec.node_selector or {}
    for one in wanted:
        own = selector.get(one.key, one.value) or ""
        if own != one.value:
            yield f"{path}.nodeSelector[{one.key}]: want {quoted(one.value)} or no such entry, got {quoted(own)}"
    for index, term in enumerate(spec.terms):
        for position, expression in enumerate(term.match_expressions or ()):
            for one in wanted:
                if expression.key == one.key and not can_hold(expression, one.value):
                    at = f"{path}.{TERMS_FIELD}[{index}].matchExpressions[{position}]"
                    yield (
                        f"{at}: {_written(expression)} never holds "
                        f"where {one.key} is {quoted(one.value)}, as it must be: remove the expression or the term"
                    )


def can_hold(expression: Expression, value: str) -> bool:
    """Whether a node whose label has this value fulfills the expression, as the scheduler evaluates it.

    What the API server refuses anyway (an unknown operator) is not judged.
    """
    values = [one or "" for one in expression.values or ()]
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


def _impossible(one: Requirement) -> Iterator[str]:
    """A value that no label can have."""
    if not one.value:
        yield f"label {one.key}: want a name, got an empty text"
        return
    try:
        check_label_value(one.value)
    except ValueError as error:
        yield f"label {one.key}: no node can have it with this name: {error}"


def _integer(text: str) -> int | None:
    """As the scheduler reads integers: 64 bits, decimal."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def _written(expression: Expression) -> str:
    values = [one or "" for one in expression.values or ()]
    return f"{expression.operator} {quoted(', '.join(values))}" if values else str(expression.operator)
