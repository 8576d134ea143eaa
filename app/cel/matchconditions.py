"""Match conditions of webhooks: which conditions hold for a request, and whether they can be evaluated at all.

A real API server evaluates CEL. The room `cel` speaks an honest subset: what lies outside of it is refused when the
webhook is registered, with the place of the trouble, and never ignored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from app.cel.attributes import Attributes
from app.cel.calls import NoValue
from app.cel.checking import check
from app.cel.syntax import Node, parse
from app.cel.tokens import BadExpression
from app.cel.types import DYN, Type
from app.cel.values import evaluate
from app.errors import BerthError
from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import qualified_faults
from app.wire import JSON

__all__ = ["ConditionFailed", "check_conditions", "compile_condition", "holds"]

_MOST = 64
VARIABLES: dict[str, Type] = {"object": DYN, "oldObject": DYN, "request": DYN}


class ConditionFailed(BerthError):
    """A condition has no value for this request (`no such key: labels`)."""


@lru_cache(maxsize=512)
def compile_condition(expression: str) -> tuple[Node, Type]:
    """The parsed expression and its type; raises `BadExpression` for what is no CEL, or CEL beyond the subset."""
    node = parse(expression)
    return node, check(expression, node, VARIABLES)


def check_conditions(conditions: list[JSON], path: str) -> list[FieldError]:
    """The faults in the matchConditions of one webhook, for the time when it is written."""
    errors: list[FieldError] = []
    if len(conditions) > _MOST:
        errors.append(FieldError(path, "TooMany", f"must have at most {_MOST} items", len(conditions)))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where, name = f"{path}[{index}]", condition.get("name") or ""
        errors += _check_expression(condition.get("expression") or "", f"{where}.expression")
        if not name:
            errors.append(FieldError(f"{where}.name", "Required"))
        else:
            errors += [FieldError(f"{where}.name", "Invalid", text, name) for text in qualified_faults(name)]
            if name in seen:
                errors.append(FieldError(f"{where}.name", "Duplicate", "", name))
        seen.add(name)
    return errors


def _check_expression(expression: str, path: str) -> list[FieldError]:
    if not expression.strip():
        return [FieldError(path, "Required")]
    try:
        _, kind = compile_condition(expression)
    except BadExpression as error:
        return [FieldError(path, "Invalid", f"compilation failed: {error}", expression)]
    if kind.name != "bool":
        return [FieldError(path, "Invalid", f"must evaluate to bool but got {kind}", expression)]
    return []


def holds(conditions: list[JSON], attributes: Attributes, obj: JSON | None) -> bool:
    """Whether all conditions are true; one that is false decides, else one that fails raises `ConditionFailed`."""
    if not conditions:
        return True
    variables = _variables(attributes, obj)
    failures: list[str] = []
    for condition in conditions:
        try:
            node, _ = compile_condition(condition.get("expression", ""))
            value = evaluate(node, variables)
        except (NoValue, BadExpression) as error:
            failures.append(f"expression '{condition.get('expression')}' resulted in error: {error}")
            continue
        if value is not True:
            if value is False:
                return False
            failures.append(f"cel expression '{condition.get('expression')}' does not evaluate to bool")
    if failures:
        raise ConditionFailed("[" + ", ".join(failures) + "]" if len(failures) > 1 else failures[0])
    return True


def _variables(attributes: Attributes, obj: JSON | None) -> dict[str, Any]:
    user = attributes.user
    group, version = attributes.group, attributes.version
    kind = {"group": group, "version": version, "kind": attributes.kind}
    resource = {"group": group, "version": version, "resource": attributes.resource}
    return {
        "object": None if attributes.operation == "DELETE" else obj,
        "oldObject": attributes.old_object,
        "request": {
            "kind": kind,
            "resource": resource,
            "subResource": attributes.subresource,
            "requestKind": kind,
            "requestResource": resource,
            "requestSubResource": attributes.subresource,
            "name": attributes.name,
            "namespace": attributes.namespace,
            "operation": attributes.operation,
            "userInfo": {
                "username": user.username,
                "uid": user.uid,
                "groups": list(user.groups),
                "extra": {name: list(values) for name, values in user.extra.items()},
            },
            "dryRun": attributes.dry_run,
            "options": attributes.options,
        },
    }
