"""The IP and CIDR functions of Kubernetes in match conditions."""

from __future__ import annotations

import pytest

from app.cel.calls import NoValue
from app.cel.matchconditions import compile_condition
from app.cel.syntax import BadExpression
from app.cel.values import evaluate
from tests.support.cel_addresses import EXPRESSIONS


@pytest.mark.parametrize(("expression", "value"), EXPRESSIONS)
def test_expressions(expression: str, *, value: bool) -> None:
    assert evaluate(compile_condition(expression)[0], {}) is value


@pytest.mark.parametrize(
    "expression",
    ["ip('x').isLoopback()", "cidr('10.0.0.5').ip() == ip('::')", "cidr('10.0.0.0/8').containsIP('x')",
     "cidr('::/0').containsCIDR('::')"],
)  # fmt: skip
def test_what_is_no_address_has_no_value(expression: str) -> None:
    with pytest.raises(NoValue, match="parse error during conversion from string"):
        evaluate(compile_condition(expression)[0], {})


@pytest.mark.parametrize(
    "expression", ["ip(1) == ip('::')", "ip('::').prefixLength() == 1", "cidr('::/0').isLoopback()"]
)
def test_types_are_checked(expression: str) -> None:
    with pytest.raises(BadExpression, match="found no matching overload"):
        compile_condition(expression)
