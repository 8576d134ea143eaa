"""What match conditions of a webhook have to be for the API server to accept them. Pure."""

from __future__ import annotations

from app.cel.matchconditions import compile_condition
from app.cel.syntax import BadExpression
from app.kinds.fielderrors import Field, FieldError
from app.kinds.name_syntax import qualified_faults
from app.wire import JSON

_MOST = 64


def check_conditions(conditions: list[JSON], path: str) -> list[FieldError]:
    """The faults in the matchConditions of one webhook, for the time when it is written."""
    errors: list[FieldError] = []
    if len(conditions) > _MOST:
        errors.append(FieldError(path, "TooMany", f"must have at most {_MOST} items", len(conditions)))
    seen: set[str] = set()
    for index, entry in enumerate(conditions):
        condition = Field(entry, f"{path}[{index}]", errors)
        _check_expression(condition)
        if condition.named("name", qualified_faults):
            condition.unique("name", condition.text("name"), seen)
    return errors


def _check_expression(condition: Field) -> None:
    expression = condition.text("expression")
    if not expression.strip():
        condition.fault("expression", "Required")
        return
    try:
        _, kind = compile_condition(expression)
    except BadExpression as error:
        condition.fault("expression", "Invalid", f"compilation failed: {error}")
        return
    if kind.name != "bool":
        condition.fault("expression", "Invalid", f"must evaluate to bool but got {kind}")
