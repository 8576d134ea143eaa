"""Computes the trees that `conditionsyntax` reads by CEL's rules: absent keys are errors, `||` and `&&` forgive one.

Pure. Values are plain JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from app.errors import BerthError
from app.sandbox.schemas.schemaformats import go_pattern
from app.sandbox.webhooks.conditionsyntax import Node

Variables = Mapping[str, Any]


class ConditionFailed(BerthError):
    """The expression has no value for this request (`no such key: labels`)."""


def evaluate(node: Node, variables: Variables) -> Any:
    """The value of the tree; raises `ConditionFailed`."""
    return _KINDS[node.kind](node, variables)


def _literal(node: Node, _: Variables) -> Any:
    return node.value


def _variable(node: Node, variables: Variables) -> Any:
    return variables[node.value]


def _list(node: Node, variables: Variables) -> Any:
    return [evaluate(part, variables) for part in node.parts]


def _member(node: Node, variables: Variables) -> Any:
    target = evaluate(node.parts[0], variables)
    if isinstance(target, dict):
        if node.value in target:
            return target[node.value]
        raise ConditionFailed(f"no such key: {node.value}")
    raise ConditionFailed(f"no such overload: {_type(target)}.{node.value}")


def _has(node: Node, variables: Variables) -> bool:
    target = evaluate(node.parts[0], variables)
    if not isinstance(target, dict):
        raise ConditionFailed(f"no such overload: has({_type(target)}.{node.value})")
    return node.value in target


def _index(node: Node, variables: Variables) -> Any:
    target, key = (evaluate(part, variables) for part in node.parts)
    if isinstance(target, dict) and isinstance(key, str):
        if key in target:
            return target[key]
        raise ConditionFailed(f"no such key: {key}")
    if isinstance(target, list) and isinstance(key, int) and not isinstance(key, bool):
        if 0 <= key < len(target):
            return target[key]
        raise ConditionFailed(f"index out of bounds: {key}")
    raise ConditionFailed(f"no such overload: {_type(target)}[{_type(key)}]")


def _unary(node: Node, variables: Variables) -> Any:
    value = evaluate(node.parts[0], variables)
    if node.value == "!":
        return not _bool(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return -value
    raise ConditionFailed(f"no such overload: -{_type(value)}")


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ConditionFailed(f"no such overload: {_type(value)} where bool is needed")


def _binary(node: Node, variables: Variables) -> Any:
    if node.value in ("&&", "||"):
        return _logic(node, variables, decisive=node.value == "||")
    left, right = (evaluate(part, variables) for part in node.parts)
    if node.value in ("==", "!="):
        return _equal(left, right) == (node.value == "==")
    if node.value == "in":
        if isinstance(right, dict):
            return isinstance(left, str) and left in right
        if isinstance(right, list):
            return any(_equal(left, element) for element in right)
        raise ConditionFailed(f"no such overload: {_type(left)} in {_type(right)}")
    comparable = {_type(left), _type(right)} <= {"int", "double"} or (_type(left) == _type(right) == "string")
    if comparable:
        return _COMPUTE[node.value](left, right)
    if node.value == "+" and isinstance(left, list) and isinstance(right, list):
        return left + right
    raise ConditionFailed(f"no such overload: {_type(left)} {node.value} {_type(right)}")


def _subtract(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        raise ConditionFailed("no such overload: string - string")
    return left - right


_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "+": lambda left, right: left + right,
    "-": _subtract,
}


def _logic(node: Node, variables: Variables, *, decisive: bool) -> bool:
    """One operand that decides is enough, on either side, even where the other one fails."""
    failure: ConditionFailed | None = None
    for part in node.parts:
        try:
            if _bool(evaluate(part, variables)) is decisive:
                return decisive
        except ConditionFailed as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not decisive


def _if(node: Node, variables: Variables) -> Any:
    chosen = node.parts[1] if _bool(evaluate(node.parts[0], variables)) else node.parts[2]
    return evaluate(chosen, variables)


def _macro(node: Node, variables: Variables) -> bool:
    name, variable = node.value
    target = evaluate(node.parts[0], variables)
    if not isinstance(target, dict | list):
        raise ConditionFailed(f"no such overload: {_type(target)}.{name}()")
    failure: ConditionFailed | None = None
    count = 0
    for element in target:
        try:
            true = _bool(evaluate(node.parts[1], {**variables, variable: element}))
        except ConditionFailed as error:
            failure = failure or error
            continue
        if (name, true) in (("exists", True), ("all", False)):
            return true
        count += true
    if failure is not None:
        raise failure
    return {"exists": False, "all": True, "exists_one": count == 1}[name]


def _size(value: Any) -> int:
    if isinstance(value, str | list | dict):
        return len(value)
    raise ConditionFailed(f"no such overload: size({_type(value)})")


def _method(node: Node, variables: Variables) -> Any:
    values = [evaluate(part, variables) for part in node.parts]
    if node.value == "size":
        return _size(values[0])
    target, argument = values
    if not isinstance(target, str) or not isinstance(argument, str):
        raise ConditionFailed(f"no such overload: {_type(target)}.{node.value}({_type(argument)})")
    if node.value == "startsWith":
        return target.startswith(argument)
    if node.value == "endsWith":
        return target.endswith(argument)
    if node.value == "contains":
        return argument in target
    try:
        return re.search(go_pattern(argument), target) is not None
    except re.error as error:
        raise ConditionFailed(f"invalid regular expression: {error}") from error


def _function(node: Node, variables: Variables) -> Any:
    value = evaluate(node.parts[0], variables)
    if node.value == "size":
        return _size(value)
    if _type(value) not in ("string", "int", "double", "bool") or (node.value == "int" and isinstance(value, bool)):
        raise ConditionFailed(f"no such overload: {node.value}({_type(value)})")
    if node.value == "string":
        return str(value).lower() if isinstance(value, bool) else str(value)
    try:
        return int(value)
    except ValueError as error:
        raise ConditionFailed(f"int({value!r}): not a number") from error


def _equal(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _type(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "bool"), (int, "int"), (float, "double"), (str, "string"), (list, "list")):
        if isinstance(value, kind):
            return name
    return "map"


_KINDS: dict[str, Callable[[Node, Variables], Any]] = {
    "literal": _literal,
    "variable": _variable,
    "list": _list,
    "member": _member,
    "has": _has,
    "index": _index,
    "unary": _unary,
    "binary": _binary,
    "if": _if,
    "macro": _macro,
    "method": _method,
    "function": _function,
}
