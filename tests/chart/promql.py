"""Reads as much of PromQL as dashboards and alerts here are written in, and says what each expression gives.

Not an evaluator: a check of syntax, of types (a rate wants a range, a comparison none), of the series that a selector
finds, and of the labels that a result has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""\s*(?:
      (?P<duration>\[\s*(?:(?:\d+(?:ms|[smhdwy]))+)\s*\])
    | (?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    | (?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^(){},=<>])
    )""",
    re.VERBOSE,
)
RANGED = {"rate", "increase", "avg_over_time", "max_over_time", "min_over_time", "delta"}
PLAIN = {"abs", "clamp_min", "clamp_max", "ceil", "floor"}
AGGREGATIONS = {"sum", "max", "min", "avg", "count"}
LEVELS = (("or",), ("and", "unless"), ("==", "!=", "<=", ">=", "<", ">"), ("+", "-"), ("*", "/", "%"))
SETS = ("or", "and", "unless")
COMPARISONS = LEVELS[2]


class PromQLError(ValueError):
    """The expression means nothing, or nothing that this reads."""


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
        self._tokens = list(_tokens(self.text))
        value = self._binary(0)
        if self._tokens:
            raise PromQLError(f"left over: {self._tokens[0][1]!r} in {self.text}")
        return value

    def _peek(self) -> str:
        return self._tokens[0][1] if self._tokens else ""

    def _take(self, *wanted: str) -> tuple[str, str]:
        if not self._tokens or (wanted and self._tokens[0][0] not in wanted and self._peek() not in wanted):
            raise PromQLError(f"want {' or '.join(wanted) or 'more'}, found {self._peek()!r} in {self.text}")
        return self._tokens.pop(0)

    def _binary(self, level: int) -> Value:
        if level == len(LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek() in LEVELS[level]:
            _, sign = self._take()
            left = _combined(left, sign, self._binary(level + 1), self.text)
        return left

    def _unary(self) -> Value:
        if self._peek() == "-":
            self._take()
        kind, text = self._take("number", "name", "(")
        if kind == "number":
            return Value("scalar")
        if text == "(":
            value = self._binary(0)
            self._take(")")
            return value
        if text in AGGREGATIONS:
            return self._aggregation()
        return self._call(text) if self._peek() == "(" else self._selector(text)

    def _aggregation(self) -> Value:
        keep: frozenset[str] = frozenset()
        if self._peek() in ("by", "without"):
            raise_on_without = self._take()[1]
            if raise_on_without == "without":
                raise PromQLError("without: say what stays, lest new labels come through")
            keep = frozenset(self._names())
        self._take("(")
        inner = self._binary(0)
        self._take(")")
        if inner.kind != "vector":
            raise PromQLError(f"aggregates a {inner.kind}: {self.text}")
        if keep - inner.labels:
            raise PromQLError(f"by {sorted(keep - inner.labels)}, which is not there: {self.text}")
        return Value("vector", keep)

    def _names(self) -> list[str]:
        self._take("(")
        names = []
        while self._peek() != ")":
            names.append(self._take("name")[1])
            if self._peek() == ",":
                self._take()
        self._take(")")
        return names

    def _call(self, name: str) -> Value:
        self._take("(")
        arguments = []
        while self._peek() != ")":
            arguments.append(self._binary(0))
            if self._peek() == ",":
                self._take()
        self._take(")")
        kinds = [argument.kind for argument in arguments]
        if name == "time" and not kinds:
            return Value("scalar")
        if name in RANGED and kinds == ["range"]:
            return Value("vector", arguments[0].labels)
        if name in PLAIN and kinds and kinds[0] == "vector":
            return arguments[0]
        if name == "histogram_quantile" and kinds == ["scalar", "vector"] and "le" in arguments[1].labels:
            return Value("vector", arguments[1].labels - {"le"})
        if name == "absent" and kinds == ["vector"]:
            return Value("vector", frozenset(m.label for m in self.selectors[-1].matchers if m.sign == "="))
        raise PromQLError(f"{name}({', '.join(kinds)}): {self.text}")

    def _selector(self, metric: str) -> Value:
        matchers = []
        if self._peek() == "{":
            self._take()
            while self._peek() != "}":
                _, label = self._take("name")
                _, sign = self._take("=", "!=", "=~", "!~")
                _, value = self._take("string")
                matchers.append(Matcher(label, sign, value[1:-1].replace("\\\\", "\\")))
                if self._peek() == ",":
                    self._take()
            self._take("}")
        found = Selector(metric, tuple(matchers))
        self.selectors.append(found)
        labels = frozenset(self.labels_of(found))
        if self._tokens and self._tokens[0][0] == "duration":
            self._take()
            return Value("range", labels)
        return Value("vector", labels)


def _tokens(text: str) -> Iterable[tuple[str, str]]:
    at, text = 0, text.strip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise PromQLError(f"cannot be read: {text[at : at + 20]!r}")
        yield match.lastgroup, match[match.lastgroup]
        at = match.end()


def _combined(left: Value, sign: str, right: Value, text: str) -> Value:
    kinds = {left.kind, right.kind}
    if "range" in kinds or (sign in SETS and "scalar" in kinds):
        raise PromQLError(f"{left.kind} {sign} {right.kind}: {text}")
    if kinds == {"scalar"}:
        if sign in COMPARISONS:
            raise PromQLError(f"two scalars compared: {text}")
        return left
    if kinds == {"vector"} and left.labels != right.labels:
        raise PromQLError(f"{sorted(left.labels)} {sign} {sorted(right.labels)} never match: {text}")
    return left if left.kind == "vector" else right
