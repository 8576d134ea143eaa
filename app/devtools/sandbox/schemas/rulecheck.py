"""Whether the `x-kubernetes-validations` of a schema can be served: every rule is read, typed and bounded beforehand.

Pure. The API server's estimate of what a rule may cost is not made here: a rule
over unbounded lists that a real server refuses passes.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from app.cel.checking import check
from app.cel.tokens import BadExpression
from app.cel.types import Type, optional_of
from app.devtools.sandbox.schemas.rules import RULES, compiled, uses_old
from app.devtools.sandbox.schemas.ruletypes import declared_type
from app.kinds.fielderrors import FieldError, child
from app.wire import JSON, encode_json

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_MAX_MESSAGE = 2048
_SEGMENT = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['((?:[^'\\]|\\.)*)'\]")
_PRINTED = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
_BREAKS = re.compile(r"[\r\n]")


def check_rule_schemas(schema: Any, path: str, *, root: bool = True, uncorrelated: str = "") -> list[FieldError]:
    """All faults of all rules; below the list at `uncorrelated` old elements cannot be told, so no rule may ask."""
    if not isinstance(schema, dict):
        return []
    errors: list[FieldError] = []
    rules = schema.get(RULES) or []
    kind = declared_type(schema, root=root) if rules else None
    for index, rule in enumerate(rules):
        where = f"{child(path, RULES)}[{index}]"
        if kind is not None and isinstance(rule, dict):
            errors += _check_rule(rule, where, schema, kind, uncorrelated)
    below = [
        (f"{child(path, 'properties')}[{name}]", inner, uncorrelated)
        for name, inner in (schema.get("properties") or {}).items()
    ]
    below.append((child(path, "additionalProperties"), schema.get("additionalProperties"), uncorrelated))
    within = path if schema.get("x-kubernetes-list-type") != "map" else ""
    below.append((child(path, "items"), schema.get("items"), uncorrelated or within))
    for where, inner, lost in below:
        errors += check_rule_schemas(inner, where, root=False, uncorrelated=lost)
    return errors


def _check_rule(rule: JSON, path: str, schema: JSON, kind: Type, uncorrelated: str) -> list[FieldError]:
    text = rule.get("rule") or ""
    if not text.strip():
        return [FieldError(f"{path}.rule", "Required", "rule is not specified"), *_check_words(rule, path)]
    errors = _check_words(rule, path) + _check_field_path(rule, path, schema)
    if kind.name == "opaque":
        return [*errors, FieldError(f"{path}.rule", "Invalid", f"the sandbox does not speak {kind.parts[0]}", text)]
    optional = bool(rule.get("optionalOldSelf"))
    scope = {"self": kind, "oldSelf": optional_of(kind) if optional else kind}
    errors += _check_expression(rule, path, "rule", scope, ("bool", "cel expression must evaluate to a bool"))
    if rule.get("messageExpression"):
        wanted = ("string", "messageExpression must evaluate to a string")
        errors += _check_expression(rule, path, "messageExpression", scope, wanted)
    old = uses_old(text)
    if optional and not old:
        detail = "may not be set if oldSelf is not used in rule"
        errors.append(FieldError(f"{path}.optionalOldSelf", "Invalid", detail, True))
    if uncorrelated and old:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
        errors.append(FieldError(f"{path}.rule", "Invalid", detail, text))
    return errors


def _check_expression(
    rule: JSON, path: str, field: str, scope: dict[str, Type], wanted: tuple[str, str]
) -> list[FieldError]:
    text = rule[field]
    try:
        result = check(text, compiled(text), scope)
    except BadExpression as error:
        prefix = "" if field == "rule" else f"{field} "
        return [FieldError(f"{path}.{field}", "Invalid", f"{prefix}compilation failed: {error}", _printed(rule))]
    if result.name != wanted[0]:
        return [FieldError(f"{path}.{field}", "Invalid", wanted[1], _printed(rule))]
    return []


def _printed(rule: JSON) -> msgspec.Raw:
    """The rule as the API server shows it: all its fields, with the letters escaped that Go escapes."""
    absent: JSON = {"message": "", "messageExpression": "", "reason": None, "fieldPath": "", "optionalOldSelf": None}
    shown = {name[0].upper() + name[1:]: rule.get(name, absent.get(name)) for name in _PRINTED}
    text = encode_json(shown).decode()
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return msgspec.Raw(text.encode())


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
