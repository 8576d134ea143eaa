"""Which keys can have a value in a workload, and which expressions and terms hold for none or for all of them. Pure.

The reason that is given contains the key that was probably meant. A key that computes is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.text import closest, quoted
from app.workloads.model import ORCHESTRATOR, RESOURCE_TYPE, Expression, Term
from app.workloads.rules.key_syntax import path_text
from app.workloads.rules.keys import compile_key

_Path = tuple[str, ...]
_TEXT = "text"
_NAMES = "names"
"""A map whose fields are what people name them."""
_LABELS, _ANNOTATIONS = ("state", "extra", "labels"), ("state", "extra", "annotations")
_DOCUMENT: Mapping[str, Any] = {
    "metadata": dict.fromkeys(("id", "orchestrator", "resourceType", "resourceName", "resourceNamespace"), _TEXT),
    "state": {"nodeName": _TEXT, "ready": _TEXT, "extra": {"labels": _NAMES, "annotations": _NAMES}},
}
"""What a workload that came through the gateway may have."""
_OPTIONAL = ("state", "nodeName")
"""The only field that a workload may lack."""
_VALUES: Mapping[_Path, tuple[str, ...]] = {
    ("state", "ready"): ("true", "false"),
    ("metadata", "orchestrator"): (ORCHESTRATOR,),
    ("metadata", "resourceType"): (RESOURCE_TYPE,),
}
"""All that there may be under these keys."""
_MEANT: Mapping[_Path, _Path] = {
    ("spec", "metadata"): ("metadata",),
    ("spec", "state"): ("state",),
    ("metadata", "labels"): _LABELS,
    ("metadata", "annotations"): _ANNOTATIONS,
    ("metadata", "name"): ("metadata", "resourceName"),
    ("metadata", "namespace"): ("metadata", "resourceNamespace"),
    ("metadata", "uid"): ("metadata", "id"),
    ("state", "labels"): _LABELS,
    ("state", "annotations"): _ANNOTATIONS,
    ("spec", "nodeName"): ("state", "nodeName"),
    ("name",): ("metadata", "resourceName"),
    ("namespace",): ("metadata", "resourceNamespace"),
}
"""Where something is that a Pod or a Workload object has elsewhere."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What an expression is for every workload, and why."""

    holds: bool
    why: str


def unreachable(key: str) -> str:
    """Why no workload has a value under this key, and what was meant; "" where one may. ValueError for no key."""
    path = compile_key(key).path
    return "" if path is None else _unreachable(path)


def fixed(expression: Expression) -> Fixed | None:
    """None where it depends on the workload whether the expression holds. ValueError for a key that is none."""
    path = compile_key(expression.key).path
    if path is None:
        return None
    positive = expression.operator in ("In", "Exists")
    if why := _unreachable(path):
        return Fixed(not positive, why)
    node = _node(path)
    if expression.operator in ("Exists", "DoesNotExist"):
        if path == _OPTIONAL or path[:-1] in (_LABELS, _ANNOTATIONS):
            return None
        return Fixed(positive, f"every workload has {_shown(path)}")
    if node is not _TEXT:
        return Fixed(not positive, f"{_shown(path)} is a map, which equals no text")
    allowed = _VALUES.get(path, ())
    if allowed and expression.values.isdisjoint(allowed):
        return Fixed(not positive, f"{_shown(path)} is {' or '.join(map(quoted, allowed))}")
    return None


def without_match(terms: Iterable[Term]) -> Iterator[tuple[str, str]]:
    """The terms that hold for no workload: where the first expression is that never holds, and why.

    A rule of which every term is among them matches nothing.
    """
    for number, term in enumerate(terms):
        for place, expression in enumerate(term):
            verdict = fixed(expression)
            if verdict is not None and not verdict.holds:
                yield f"workloadTerms[{number}].matchExpressions[{place}].key", verdict.why
                break
        else:
            if (contradiction := contradiction_in(term)) is not None:
                place, why = contradiction
                yield f"workloadTerms[{number}].matchExpressions[{place}]", why


NEVER = "no workload can match: spec.{}: {}"
"""Of a rule that matches nothing for ever: with what `impossible` returns."""


def impossible(terms: Iterable[Term]) -> tuple[str, str] | None:
    """Where in its spec a rule has its first term, and why this holds for no workload, if none of its terms ever does.

    None where a workload may match.
    """
    terms = tuple(terms)
    dead = list(without_match(terms))
    return dead[0] if dead and len(dead) == len(terms) else None


def contradiction_in(term: Term) -> tuple[int, str] | None:
    """The first expression that cannot hold together with those before it, and why. ValueError for a key that is none.

    Expressions are compared where they have the same key. One that cannot hold alone is for `fixed`.
    """
    left: dict[str, _Left] = {}
    places: dict[str, list[str]] = {}
    for place, expression in enumerate(term):
        path = compile_key(expression.key).path
        key = expression.key if path is None else _shown(path)
        before = left[key] if key in left else _possible(path)
        left[key] = after = before.narrowed(expression)
        others = places.setdefault(key, [])
        if before.any and not after.any:
            if not others:
                return place, f"no workload has another value of {key}"
            which = "both" if len(others) == 1 else "all of them"
            return place, f"contradicts {' and '.join(others)}: no {key} fulfills {which}"
        others.append(f"matchExpressions[{place}]")
    return None


@dataclass(frozen=True, slots=True)
class _Left:
    """What the value of a key may still be: missing, one of `values`, or, where these are None, none of `excluded`."""

    missing: bool
    values: frozenset[str] | None
    excluded: frozenset[str] = frozenset()

    @property
    def any(self) -> bool:
        return self.missing or self.values is None or bool(self.values - self.excluded)

    def narrowed(self, expression: Expression) -> _Left:
        wanted = expression.values
        match expression.operator:
            case "In":
                return _Left(False, wanted if self.values is None else self.values & wanted, self.excluded)
            case "NotIn":
                return _Left(self.missing, self.values, self.excluded | wanted)
            case "Exists":
                return _Left(False, self.values, self.excluded)
            case _:
                return _Left(self.missing, frozenset())


def _possible(path: _Path | None) -> _Left:
    """A key that computes, and one that no workload has, may have any value or none: `fixed` judges the latter."""
    if path is None or path == _OPTIONAL or path[:-1] in (_LABELS, _ANNOTATIONS) or _unreachable(path):
        return _Left(True, None)
    allowed = _VALUES.get(path)
    return _Left(False, None if allowed is None else frozenset(allowed))


def _unreachable(path: _Path) -> str:
    node: Any = _DOCUMENT
    for depth, name in enumerate(path):
        here = path[:depth]
        if node is _TEXT and here[:-1] in (_LABELS, _ANNOTATIONS):
            return f"quote {here[-2]} with dots: {path_text((*here[:-1], '.'.join(path[depth - 1 :])))}"
        if node is _TEXT:
            return f"{_shown(here)} has no fields"
        if isinstance(node, Mapping) and name not in node:
            has = f"{f'{_shown(here)} of ' if here else ''}a workload has {_enumerated(node)}"
            meant = _meant(path, depth)
            return f"{has}, not {quoted(name)}" + (f": use {path_text(meant)}" if meant else "")
        node = node[name] if isinstance(node, Mapping) else _TEXT
    return ""


def _meant(path: _Path, depth: int) -> _Path | None:
    """The path that this one, which leaves the document at `depth`, was probably meant to be."""
    for wrong, right in _MEANT.items():
        if path[: len(wrong)] == wrong:
            meant = (*right, *path[len(wrong) :])
            break
    else:
        places = {place[-1]: place for place in _places(_DOCUMENT)}
        if not (name := closest(path[depth], places)):
            return None
        meant = (*places[name], *path[depth + 1 :])
    if (named := meant[: len(_LABELS)]) in (_LABELS, _ANNOTATIONS) and len(meant) > len(_LABELS):
        return (*named, ".".join(meant[len(_LABELS) :]))
    return None if _unreachable(meant) else meant


def _places(node: Mapping[str, Any], above: _Path = ()) -> Iterator[_Path]:
    for name, inner in node.items():
        yield (*above, name)
        if isinstance(inner, Mapping):
            yield from _places(inner, (*above, name))


def _node(path: _Path) -> Any:
    node: Any = _DOCUMENT
    for name in path:
        node = node[name] if isinstance(node, Mapping) else _TEXT
    return node


def _shown(path: _Path) -> str:
    return path_text(path) or "@"


def _enumerated(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}"
