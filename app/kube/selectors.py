"""Label selectors as objects have them (matchLabels, matchExpressions) and as a text: parsed once, matched often."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.kube.names import check_label_key, check_label_value
from app.text import quoted
from app.wire import JSON

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
_KEY = r"[^\s,=!()<>]+"
_REQUIREMENT = re.compile(
    rf"""\s*(?:
        !\s*(?P<absent>{_KEY})
      | (?P<set>{_KEY})\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)
      | (?P<equal>{_KEY})\s*(?P<sign>==|!=|=)\s*(?P<value>[^\s,=!()<>]*)
      | (?P<present>{_KEY})
    )\s*(?P<end>,|$)""",
    re.VERBOSE,
)


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

    def __str__(self) -> str:
        """As kubectl takes it."""
        if not self.values:
            return self.key if self.operator == "Exists" else f"!{self.key}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator == 'In' else '!='}{next(iter(self.values))}"
        return f"{self.key} {self.operator.lower()} ({','.join(sorted(self.values))})"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; none at all matches everything, `NOTHING` matches nothing."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is selected; None stands for no labels."""
        given = labels or {}
        return not self.nothing and all(requirement.matches(given) for requirement in self.requirements)

    def __str__(self) -> str:
        """As kubectl takes it; none is written for what matches nothing."""
        return ",".join(map(str, self.requirements))


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


def label_selector_from_text(text: str) -> LabelSelector:
    """The selector that `kubectl -l` reads: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. ValueError where it is malformed.

    A text without a requirement selects everything, as {} does. The operators `>` and `<` are not among them.
    """
    found: list[Requirement] = []
    rest, end = text.strip(), ""
    while rest or end:
        one = _REQUIREMENT.match(rest)
        if one is None:
            want = "use key=value, key!=value, key in (a,b), key notin (a,b), key or !key, with commas between them"
            raise ValueError(f"{quoted(rest or text)} is not a requirement: {want}")
        found.append(_from_text(one))
        rest, end = rest[one.end() :], one["end"]
    return LabelSelector(tuple(found))


def _from_text(found: re.Match[str]) -> Requirement:
    if found["absent"] or found["present"]:
        return _requirement(found["absent"] or found["present"], "DoesNotExist" if found["absent"] else "Exists", [])
    if found["set"]:
        values = [value.strip() for value in found["values"].split(",")]
        return _requirement(found["set"], "In" if found["word"] == "in" else "NotIn", values)
    return _requirement(found["equal"], "NotIn" if found["sign"] == "!=" else "In", [found["value"]])


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
