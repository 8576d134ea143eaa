"""Label and field selectors: parsed once, matched many times.

Owns both written forms of a label selector (the object with matchLabels and matchExpressions, and the string of a
query) and the few field selectors that Berth serves. Matching looks at dictionaries only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.kube.names import check_label_key, check_label_value
from app.wire import JSON

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. As in the API, NotIn also holds where the label is absent."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        found = self.key in labels and labels[self.key] in self.values
        return found if self.operator == "In" else not found


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; none at all matches everything, `NOTHING` matches nothing."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is selected; None stands for no labels."""
        given = labels or {}
        return not self.nothing and all(requirement.matches(given) for requirement in self.requirements)


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(nothing=True)


def label_selector_from_json(selector: JSON | None) -> LabelSelector:
    """The selector of an object's field: null selects nothing, {} everything; ValueError where it is malformed."""
    if selector is None:
        return NOTHING
    if not isinstance(selector, dict):
        raise ValueError("a label selector must be an object with matchLabels and matchExpressions")  # noqa: TRY004
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(labels, dict) or not isinstance(expressions, list):
        raise ValueError("matchLabels must be an object and matchExpressions a list")  # noqa: TRY004
    found = [_requirement(key, "In", [value]) for key, value in labels.items()]
    found += [_expression(expression) for expression in expressions]
    return LabelSelector(tuple(found))


def parse_label_selector(text: str) -> LabelSelector:
    """The string form: `a=b,c!=d,e in (f,g),h notin (i),j,!k`; ValueError that names the part that is wrong."""
    return LabelSelector(tuple(_clause(part) for part in _split(text))) if text.strip() else EVERYTHING


_SET = re.compile(r"(\S+)\s+(in|notin)\s*\((.*)\)", re.DOTALL)
_EQUALITY = re.compile(r"([^=!]+?)\s*(==|!=|=)\s*([^=!]*)")


def _split(text: str) -> list[str]:
    """Splits at the commas that stand outside parentheses."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
        if depth not in (0, 1):
            raise ValueError(f"label selector {text!r}: unbalanced parentheses")
    if depth:
        raise ValueError(f"label selector {text!r}: unbalanced parentheses")
    return [part.strip() for part in (*parts, text[start:])]


def _clause(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        values = [value.strip() for value in match[3].split(",")]
        return _requirement(match[1], "In" if match[2] == "in" else "NotIn", values)
    if match := _EQUALITY.fullmatch(part):
        return _requirement(match[1].strip(), "NotIn" if match[2] == "!=" else "In", [match[3].strip()])
    if part.startswith("!"):
        return _requirement(part[1:].strip(), "DoesNotExist", [])
    if not part:
        raise ValueError("label selector: empty requirement, as after a stray comma")
    return _requirement(part, "Exists", [])


def _expression(expression: Any) -> Requirement:
    if not isinstance(expression, dict):
        raise ValueError("each of matchExpressions must be an object")  # noqa: TRY004
    operator, values = expression.get("operator"), expression.get("values") or []
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        raise ValueError(f"operator {operator!r} is unknown: use In, NotIn, Exists or DoesNotExist")
    if not isinstance(values, list):
        raise ValueError("values must be a list of strings")  # noqa: TRY004
    if bool(values) != (operator in ("In", "NotIn")):
        raise ValueError(f"operator {operator} {'takes no' if values else 'needs'} values")
    return _requirement(expression.get("key"), operator, values)


def _requirement(key: Any, operator: Operator, values: list[Any]) -> Requirement:
    if not isinstance(key, str):
        raise ValueError(f"{key!r} is not a label key")  # noqa: TRY004
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not a label value: it must be a string")  # noqa: TRY004
        check_label_value(value)
    return Requirement(check_label_key(key), operator, frozenset(values))


_FIELDS: dict[str, tuple[str, str]] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "spec.nodeName": ("spec", "nodeName"),
    "status.phase": ("status", "phase"),
}


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Equalities on a few fields: (path, wanted value, whether they must be equal)."""

    terms: tuple[tuple[str, str, bool], ...] = ()

    def matches(self, obj: JSON) -> bool:
        """Whether the object is selected; an absent field equals the empty string."""
        return all((_field(obj, path) == value) is equal for path, value, equal in self.terms)


def _field(obj: JSON, path: str) -> str:
    section, name = _FIELDS[path]
    content = obj.get(section)
    return str(content.get(name) or "") if isinstance(content, dict) else ""


_FIELD_TERM = re.compile(r"\s*([^=!\s]+)\s*(==|!=|=)((?:[^\\=,]|\\[\\=,])*)")
_ESCAPED = re.compile(r"\\([\\=,])")


def parse_field_selector(text: str) -> FieldSelector:
    """`metadata.name=a,status.phase!=Running`; a backslash escapes a comma, an equals sign or itself."""
    terms, at = [], 0
    while at < len(text):
        match = _FIELD_TERM.match(text, at)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            raise ValueError(f"field selector {text!r}: expected path=value or path!=value")
        path, operator, value = match.groups()
        if path not in _FIELDS:
            raise ValueError(f"field selector {text!r}: {path!r} is not one of {', '.join(_FIELDS)}")
        terms.append((path, _ESCAPED.sub(r"\1", value.strip()), operator != "!="))
        at = match.end() + 1
    return FieldSelector(tuple(terms))
