"""Whether an expression of a validation rule can be served: it is compiled, typed, and priced before it ever runs.

Pure. What an expression may cost is estimated in `rulecost`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import msgspec

from app.cel.checking import check_parts
from app.cel.syntax import BadExpression
from app.cel.types import Type
from app.devtools.sandbox.schemas.rulecost import MOST, Sized, estimate
from app.devtools.sandbox.schemas.rules import compiled
from app.kinds.fielderrors import FieldError
from app.wire import JSON, encode_json

_LIMIT = 10_000_000
_SCHEMA_LIMIT = 100_000_000
_RESULTS = {
    "rule": ("bool", "cel expression must evaluate to a bool"),
    "messageExpression": ("string", "messageExpression must evaluate to a string"),
}
_PRINTED = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")


@dataclass(slots=True)
class Budget:
    """What all expressions of a schema may cost together; `dear` are those that matter, with their places."""

    total: int = 0
    dear: list[tuple[int, str]] = dataclasses.field(default_factory=list)

    def add(self, cost: int, path: str) -> None:
        self.total = min(self.total + cost, MOST)
        if cost >= _SCHEMA_LIMIT // 100:
            self.dear.append((cost, path))

    def faults(self, path: str) -> list[FieldError]:
        if self.total <= _SCHEMA_LIMIT:
            return []
        dearest = sorted(self.dear, key=lambda one: -one[0])[:4]
        what = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        total = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        text = _over(total, self.total, _SCHEMA_LIMIT)
        return [FieldError(where, "Forbidden", what) for _, where in dearest] + [FieldError(path, "Forbidden", text)]


@dataclass(frozen=True, slots=True)
class Cost:
    """The sizes that an expression works on, how often it is run for one object, and what it is charged to."""

    sizes: Sized
    count: int
    budget: Budget


def check_expression(rule: JSON, path: str, field: str, scope: dict[str, Type], cost: Cost) -> list[FieldError]:
    """The faults of the expression in this field of the rule; its price is charged to the budget."""
    text, where = rule[field], f"{path}.{field}"
    try:
        node = compiled(text)
        kinds = check_parts(text, node, scope)
    except BadExpression as error:
        prefix = "" if field == "rule" else f"{field} "
        return [FieldError(where, "Invalid", f"{prefix}compilation failed: {error}", _printed(rule))]
    wanted, fault = _RESULTS[field]
    if kinds[id(node)].name != wanted:
        return [FieldError(where, "Invalid", fault, _printed(rule))]
    price = min(estimate(node, kinds, cost.sizes) * cost.count, MOST)
    cost.budget.add(price, where)
    if price <= _LIMIT:
        return []
    return [FieldError(where, "Forbidden", _over(f"estimated {field} cost", price, _LIMIT))]


def _over(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, "
        "and maxLength where arrays, maps, and strings are declared)"
    )


def _printed(rule: JSON) -> msgspec.Raw:
    """The rule as the API server shows it: all its fields, with the letters escaped that Go escapes."""
    absent: JSON = {"message": "", "messageExpression": "", "reason": None, "fieldPath": "", "optionalOldSelf": None}
    shown = {name[0].upper() + name[1:]: rule.get(name, absent.get(name)) for name in _PRINTED}
    text = encode_json(shown).decode()
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return msgspec.Raw(text.encode())
