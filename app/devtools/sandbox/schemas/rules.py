"""`x-kubernetes-validations`: the CEL rules of a CRD's schema, run on values as they are about to be stored.

Pure. A rule runs where its value is present, a transition rule (one that uses `oldSelf`) where there is an old value,
too. As in the API server, what an update leaves unchanged is not blamed again, but for transition rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.cel.calls import NoValue, Optional
from app.cel.syntax import BadExpression, Node, parse
from app.cel.values import evaluate
from app.devtools.sandbox.schemas.ruletypes import seen_value
from app.kinds.fielderrors import FieldError, child
from app.wire import JSON

RULES = "x-kubernetes-validations"
_ABSENT = object()
_BLOCKING = frozenset({"NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"})
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
_MAX_MESSAGE = 5 * 1024
_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})


@dataclass(frozen=True, slots=True)
class RuleFault(FieldError):
    """A rule that does not hold. Unlike other faults it shows no value that is an object or a list."""

    @property
    def body(self) -> str:
        if self.type == "Duplicate" or not isinstance(self.bad_value, dict | list):
            # Not `super()`: a class with slots is made again, and the bare call would not find it.
            shown = FieldError(self.field, self.type, "" if self.type == "Duplicate" else self.detail, self.bad_value)
            return "Duplicate value" if isinstance(self.bad_value, dict | list) else shown.body
        return {"Invalid": "Invalid value", "Required": "Required value"}.get(self.type, self.type) + f": {self.detail}"


@lru_cache(maxsize=1024)
def compiled(expression: str) -> Node:
    """The parsed rule; raises `BadExpression`."""
    return parse(expression)


@lru_cache(maxsize=1024)
def uses_old(expression: str) -> bool:
    """Whether the expression asks for `oldSelf`; False for what cannot be read."""
    try:
        return _mentions(compiled(expression), "oldSelf")
    except BadExpression:
        return False


def _mentions(node: Node, name: str) -> bool:
    if node.kind == "variable" and node.value == name:
        return True
    return any(_mentions(part, name) for part in node.parts)


@dataclass(frozen=True, slots=True)
class RuleTree:
    """The part of a schema that has rules: those of this value, and the trees of what lies below."""

    schema: JSON
    rules: tuple[JSON, ...]
    properties: dict[str, RuleTree]
    values: RuleTree | None
    items: RuleTree | None
    root: bool


def rule_tree(schema: Any, *, root: bool = True) -> RuleTree | None:
    """The rules of the schema, None where it has none."""
    if not isinstance(schema, dict):
        return None
    resource = root or bool(schema.get("x-kubernetes-embedded-resource"))
    inner = {
        name: tree
        for name, part in (schema.get("properties") or {}).items()
        if not (resource and name in _TYPE_META) and (tree := rule_tree(part, root=False)) is not None
    }
    values = rule_tree(schema.get("additionalProperties"), root=False)
    items = rule_tree(schema.get("items"), root=False)
    rules = tuple(schema.get(RULES) or ())
    if not (rules or inner or values or items):
        return None
    return RuleTree(schema, rules, inner, values, items, root)


def check_rules(obj: JSON, old: JSON | None, tree: RuleTree, faults: list[FieldError]) -> list[FieldError]:
    """The faults that rules find; `faults` are those that the other parts of the schema found before.

    Rules are not run on what is of a wrong shape: then a last fault says so.
    """
    if any(fault.type in _BLOCKING for fault in faults):
        return [FieldError("<nil>", "Invalid", _NOT_CHECKED)]
    return _walk(obj, tree, "", _ABSENT if old is None else old)


def _walk(value: Any, tree: RuleTree, path: str, old: Any) -> list[FieldError]:
    if value is None:
        return []
    faults: list[FieldError] = []
    unchanged = old is not _ABSENT and old == value
    for rule in tree.rules:
        if not unchanged or uses_old(rule["rule"]):
            faults += _judge(rule, value, tree, path, old)
    if isinstance(value, list) and tree.items is not None:
        return faults + _walk_list(value, tree, tree.items, path, old)
    if not isinstance(value, dict):
        return faults
    for name, member in value.items():
        former = old.get(name, _ABSENT) if isinstance(old, dict) else _ABSENT
        if name in tree.properties:
            faults += _walk(member, tree.properties[name], child(path, name), former)
        elif tree.values is not None:
            faults += _walk(member, tree.values, f"{path}[{name}]", former)
    return faults


def _walk_list(value: list[Any], tree: RuleTree, items: RuleTree, path: str, old: Any) -> list[FieldError]:
    keys = tree.schema.get("x-kubernetes-list-map-keys") or []
    before: dict[str, Any] = {}
    if keys and isinstance(old, list):
        before = {_identity(element, keys): element for element in old}
    return [
        fault
        for index, element in enumerate(value)
        for fault in _walk(element, items, f"{path}[{index}]", before.get(_identity(element, keys), _ABSENT))
    ]


def _identity(element: Any, keys: list[str]) -> str:
    return repr([element.get(key) for key in keys] if isinstance(element, dict) else element)


def _judge(rule: JSON, value: Any, tree: RuleTree, path: str, old: Any) -> list[FieldError]:
    text, schema, root = rule["rule"].strip(), tree.schema, tree.root
    variables = {"self": seen_value(value, schema, root=root)}
    if uses_old(rule["rule"]):
        before = None if old is _ABSENT or old is None else seen_value(old, schema, root=root)
        if rule.get("optionalOldSelf"):
            variables["oldSelf"] = Optional(before is not None, before)
        elif before is None:
            return []
        else:
            variables["oldSelf"] = before
    try:
        if evaluate(compiled(rule["rule"]), variables) is True:
            return []
    except (NoValue, BadExpression) as error:
        detail = f"{error} evaluating rule: {(rule.get('message') or '').strip() or text}"
        kind = schema.get("type") or ""
        return [FieldError(path, "Invalid", detail, kind)]
    where = path + (rule.get("fieldPath") or "")
    kind = (rule.get("reason") or "FieldValueInvalid").removeprefix("FieldValue")
    return [RuleFault(where.removeprefix("."), kind, _message(rule, variables), value)]


def _message(rule: JSON, variables: JSON) -> str:
    """The computed message where there is one, else the given one, else the rule itself."""
    given = (rule.get("message") or "").strip() or f"failed rule: {rule['rule'].strip()}"
    expression = rule.get("messageExpression")
    if not expression:
        return given
    if uses_old(expression) and "oldSelf" not in variables:
        return given
    try:
        text = evaluate(compiled(expression), variables)
    except (NoValue, BadExpression):
        return given
    usable = isinstance(text, str) and text.strip() and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE
    return text.strip() if usable else given
