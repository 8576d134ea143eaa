"""Match conditions of webhooks: which conditions hold for a request, and whether they can be evaluated at all.

A real API server evaluates CEL. This is an honest subset (`conditionsyntax` reads it, `conditionvalues` computes it):
what lies outside of it is refused when the webhook is registered, with the place of the trouble, and never ignored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from app.kinds.fielderrors import FieldError
from app.kinds.names import qualified_faults
from app.sandbox.webhooks.conditionsyntax import BadCondition, Node, known_type, parse
from app.sandbox.webhooks.conditionvalues import ConditionFailed, evaluate
from app.wire import JSON

if TYPE_CHECKING:
    from app.sandbox.webhooks.admission import Attributes

__all__ = ["BadCondition", "ConditionFailed", "check_conditions", "compile_condition", "holds"]

_MOST = 64
VARIABLES = frozenset({"object", "oldObject", "request"})


@lru_cache(maxsize=512)
def compile_condition(expression: str) -> Node:
    """The parsed expression; raises `BadCondition` for what is no CEL, or CEL beyond the subset."""
    return parse(expression, VARIABLES)


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
        kind = known_type(compile_condition(expression))
    except BadCondition as error:
        return [FieldError(path, "Invalid", f"compilation failed: {error}", expression)]
    if kind not in ("bool", ""):
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
            value = evaluate(compile_condition(condition.get("expression", "")), variables)
        except (ConditionFailed, BadCondition) as error:
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
