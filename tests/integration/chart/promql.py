"""Reads dashboards' and alerts' PromQL, and says what each expression gives.

Not an evaluator: syntax and types are judged by promql-parser; here the series that a selector finds are looked at, and
the labels that a result has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import promql_parser as promql

SIGNS = {"MatchOp.Equal": "=", "MatchOp.NotEqual": "!=", "MatchOp.Re": "=~", "MatchOp.NotRe": "!~"}
SCALARS = (promql.NumberLiteral, promql.StringLiteral)


class PromQLError(ValueError):
    """The expression means nothing, or finds nothing."""


@dataclass(frozen=True, slots=True)
class Matcher:
    label: str
    sign: str
    value: str

    def holds(self, labels: dict[str, str]) -> bool:
        found = labels.get(self.label, "")
        same = re.fullmatch(self.value, found) is not None if "~" in self.sign else found == self.value
        return same != self.sign.startswith("!")


@dataclass(frozen=True, slots=True)
class Selector:
    metric: str
    matchers: tuple[Matcher, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression gives: "scalar", "vector" or "range", and the labels of its series."""

    kind: str
    labels: frozenset[str] = frozenset()


LabelsOf = Callable[[Selector], Iterable[str]]
"""The labels of the series that a selector finds; raises PromQLError where there are none."""


@dataclass
class Reader:
    """`read` one expression; afterwards `selectors` are all that stood in it."""

    text: str
    labels_of: LabelsOf
    selectors: list[Selector] = field(default_factory=list)

    def read(self) -> Value:
        try:
            parsed = promql.parse(self.text)
        except ValueError as error:
            raise PromQLError(f"{error}: {self.text}") from error
        return self._value(parsed)

    def _value(self, node: Any) -> Value:
        match node:
            case promql.ParenExpr() | promql.UnaryExpr():
                return self._value(node.expr)
            case promql.BinaryExpr():
                return self._binary(node)
            case promql.AggregateExpr():
                return self._aggregation(node)
            case promql.Call():
                return self._call(node)
            case promql.VectorSelector():
                return Value("vector", self._labels(node))
            case promql.MatrixSelector():
                return Value("range", self._labels(node.vector_selector))
        assert isinstance(node, SCALARS), f"{type(node).__name__}: {self.text}"
        return Value("scalar")

    def _binary(self, node: Any) -> Value:
        left, right = self._value(node.lhs), self._value(node.rhs)
        if left.kind == right.kind == "vector" and left.labels != right.labels:
            raise PromQLError(f"{sorted(left.labels)} {node.op} {sorted(right.labels)} never match: {self.text}")
        return left if left.kind == "vector" else right

    def _aggregation(self, node: Any) -> Value:
        inner = self._value(node.expr)
        if node.modifier is None:
            return Value("vector")
        if node.modifier.type != promql.AggModifierType.By:
            raise PromQLError("without: say what stays, lest new labels come through")
        keep = frozenset(node.modifier.labels)
        if keep - inner.labels:
            raise PromQLError(f"by {sorted(keep - inner.labels)}, which is not there: {self.text}")
        return Value("vector", keep)

    def _call(self, node: Any) -> Value:
        arguments = [self._value(argument) for argument in node.args]
        if not arguments:
            return Value("scalar")
        if node.func.name == "absent":
            return Value("vector", frozenset(m.label for m in self.selectors[-1].matchers if m.sign == "="))
        if node.func.name != "histogram_quantile":
            return Value("vector", arguments[0].labels)
        if "le" not in arguments[1].labels:
            raise PromQLError(f"histogram_quantile without le: {self.text}")
        return Value("vector", arguments[1].labels - {"le"})

    def _labels(self, node: Any) -> frozenset[str]:
        matchers = tuple(Matcher(one.name, SIGNS[str(one.op)], one.value) for one in node.matchers.matchers)
        found = Selector(node.name, matchers)
        self.selectors.append(found)
        return frozenset(self.labels_of(found))
