"""Whether the `x-kubernetes-validations` of a schema can be served: every rule is read, typed and bounded beforehand.

Pure. The expressions of a rule are judged in `ruleexpression`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from app.cel.types import Type, optional_of
from app.devtools.sandbox.schemas.rulecost import REQUEST, sized
from app.devtools.sandbox.schemas.ruleexpression import Budget, Cost, check_expression
from app.devtools.sandbox.schemas.rules import RULES, uses_old
from app.devtools.sandbox.schemas.ruletypes import declared_type
from app.kinds.fielderrors import FieldError, child
from app.wire import JSON

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_MAX_MESSAGE = 2048
_SEGMENT = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['((?:[^'\\]|\\.)*)'\]")
_BREAKS = re.compile(r"[\r\n]")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the schema the rules are.

    `count` is how many values the schema above allows here at most, None without a bound. Below the list at
    `uncorrelated` old elements are not known, so rules cannot use them.
    """

    path: str
    count: int | None = 1
    uncorrelated: str = ""

    def below(self, schema: JSON) -> Iterator[tuple[_Place, Any]]:
        for name, inner in (schema.get("properties") or {}).items():
            yield replace(self, path=f"{child(self.path, 'properties')}[{name}]"), inner
        extra, items = schema.get("additionalProperties"), schema.get("items")
        most = schema.get("maxProperties")
        yield replace(self, path=child(self.path, "additionalProperties"), count=_product(self.count, most)), extra
        within = self.path if schema.get("x-kubernetes-list-type") != "map" else ""
        count = _product(self.count, schema.get("maxItems"))
        yield _Place(child(self.path, "items"), count, self.uncorrelated or within), items


def _product(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one * other


def check_rule_schemas(schema: Any, path: str) -> list[FieldError]:
    """All faults of all rules, and of what they may cost."""
    budget = Budget()
    return _check_schema(schema, _Place(path), budget, root=True) + budget.faults(path)


def _check_schema(schema: Any, place: _Place, budget: Budget, *, root: bool = False) -> list[FieldError]:
    if not isinstance(schema, dict):
        return []
    errors: list[FieldError] = []
    rules = schema.get(RULES) or []
    kind = declared_type(schema, root=root) if rules else None
    for index, rule in enumerate(rules):
        where = f"{child(place.path, RULES)}[{index}]"
        if kind is not None and isinstance(rule, dict):
            errors += _check_rule(rule, replace(place, path=where), schema, kind, budget)
    for below, inner in place.below(schema):
        errors += _check_schema(inner, below, budget)
    return errors


def _check_rule(rule: JSON, place: _Place, schema: JSON, kind: Type, budget: Budget) -> list[FieldError]:
    path, text = place.path, rule.get("rule") or ""
    if not text.strip():
        return [FieldError(f"{path}.rule", "Required", "rule is not specified"), *_check_words(rule, path)]
    errors = _check_words(rule, path) + _check_field_path(rule, path, schema)
    if kind.name == "opaque":
        return [*errors, FieldError(f"{path}.rule", "Invalid", f"the sandbox does not speak {kind.parts[0]}", text)]
    optional = bool(rule.get("optionalOldSelf"))
    scope = {"self": kind, "oldSelf": optional_of(kind) if optional else kind}
    sizes = sized(schema, root="apiVersion" in (kind.fields or {}))
    count = place.count if place.count is not None else REQUEST // (sizes.fewest + 1)
    errors += check_expression(rule, path, "rule", scope, Cost(sizes, count, budget))
    if rule.get("messageExpression"):
        errors += check_expression(rule, path, "messageExpression", scope, Cost(sizes, 1, budget))
    old = uses_old(text)
    if optional and not old:
        detail = "may not be set if oldSelf is not used in rule"
        errors.append(FieldError(f"{path}.optionalOldSelf", "Invalid", detail, True))
    if place.uncorrelated and old:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
        errors.append(FieldError(f"{path}.rule", "Invalid", detail, text))
    return errors


def _check_words(rule: JSON, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    message = rule.get("message") or ""
    if message and not message.strip():
        errors.append(FieldError(f"{path}.message", "Invalid", "must be non-empty if specified", message))
    elif _BREAKS.search(message.strip()):
        errors.append(FieldError(f"{path}.message", "Invalid", "must not contain line breaks", message))
    elif len(message) > _MAX_MESSAGE:
        errors.append(FieldError(f"{path}.message", "TooLong", f"may not be more than {_MAX_MESSAGE} bytes", message))
    elif not message and _BREAKS.search((rule.get("rule") or "").strip()):
        text = "message must be specified if rule contains line breaks"
        errors.append(FieldError(f"{path}.message", "Required", text))
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        text = "must be non-empty if specified"
        errors.append(FieldError(f"{path}.messageExpression", "Required", text))
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        known = ", ".join(f'"{one}"' for one in _REASONS)
        errors.append(FieldError(f"{path}.reason", "NotSupported", f"supported values: {known}", reason))
    return errors


def _check_field_path(rule: JSON, path: str, schema: JSON) -> list[FieldError]:
    wanted = rule.get("fieldPath")
    if not wanted:
        return []
    at, inner = 0, schema
    while at < len(wanted):
        found = _SEGMENT.match(wanted, at)
        name = found and (found[1] if found[1] is not None else found[2])
        below = None
        if isinstance(name, str) and isinstance(inner, dict):
            below = (inner.get("properties") or {}).get(name) or inner.get("additionalProperties")
        if found is None or not isinstance(below, dict):
            return [FieldError(f"{path}.fieldPath", "Invalid", "must be a valid path", wanted)]
        at, inner = found.end(), below
    return []
