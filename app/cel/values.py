"""Computes trees of CEL by its rules: absent keys are errors, `||` and `&&` forgive one.

Pure. Values are plain JSON, and the few of `calls`. A member may be written escaped (`__dash__`), as field names that
are no identifiers have to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from app.cel.calls import TYPE_NAMES, Duration, NoValue, TypeName, call, equal, type_of
from app.cel.identifiers import unescaped
from app.cel.syntax import Node

Variables = Mapping[str, Any]
_NUMBERS = frozenset({"int", "double"})


def evaluate(node: Node, variables: Variables) -> Any:
    """The value of the tree; raises `NoValue`."""
    return _KINDS[node.kind](node, variables)


def _literal(node: Node, _: Variables) -> Any:
    return node.value


def _variable(node: Node, variables: Variables) -> Any:
    return variables[node.value] if node.value in variables else TypeName(TYPE_NAMES[node.value])


def _list(node: Node, variables: Variables) -> Any:
    return [evaluate(part, variables) for part in node.parts]


def _map(node: Node, variables: Variables) -> Any:
    parts = [evaluate(part, variables) for part in node.parts]
    made: dict[Any, Any] = {}
    for key, value in zip(parts[::2], parts[1::2], strict=True):
        if type_of(key) not in ("string", "int", "bool"):
            raise NoValue(f"unsupported key type: {type_of(key)}")
        if key in made:
            raise NoValue(f"Failed with repeated key: {key}")
        made[key] = value
    return made


def _key(target: Mapping[str, Any], name: str) -> str:
    return name if name in target else unescaped(name)


def _member(node: Node, variables: Variables) -> Any:
    target = evaluate(node.parts[0], variables)
    if isinstance(target, dict):
        key = _key(target, node.value)
        if key in target:
            return target[key]
        raise NoValue(f"no such key: {key}")
    raise NoValue(f"no such overload: {type_of(target)}.{node.value}")


def _has(node: Node, variables: Variables) -> bool:
    target = evaluate(node.parts[0], variables)
    if not isinstance(target, dict):
        raise NoValue(f"no such overload: has({type_of(target)}.{node.value})")
    return _key(target, node.value) in target


def _index(node: Node, variables: Variables) -> Any:
    target, key = (evaluate(part, variables) for part in node.parts)
    if isinstance(target, dict) and isinstance(key, str | int):
        if key in target:
            return target[key]
        raise NoValue(f"no such key: {key}")
    if isinstance(target, list) and isinstance(key, int) and not isinstance(key, bool):
        if 0 <= key < len(target):
            return target[key]
        raise NoValue(f"index out of bounds: {key}")
    raise NoValue(f"no such overload: {type_of(target)}[{type_of(key)}]")


def _unary(node: Node, variables: Variables) -> Any:
    value = evaluate(node.parts[0], variables)
    if node.value == "!":
        return not _bool(value)
    if type_of(value) in _NUMBERS:
        return _bounded(-value)
    raise NoValue(f"no such overload: -{type_of(value)}")


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise NoValue(f"no such overload: {type_of(value)} where bool is needed")


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise NoValue("integer overflow")
    return value


def _binary(node: Node, variables: Variables) -> Any:
    sign = node.value
    if sign in ("&&", "||"):
        return _logic(node, variables, decisive=sign == "||")
    left, right = (evaluate(part, variables) for part in node.parts)
    if sign in ("==", "!="):
        return equal(left, right) == (sign == "==")
    if sign == "in":
        return _contained(left, right)
    kinds = {type_of(left), type_of(right)}
    if sign in _COMPARE and (kinds <= _NUMBERS or kinds in ({"string"}, {"bool"}, {"duration"})):
        return _COMPARE[sign](left, right)
    same = len(kinds) == 1
    if same and kinds <= _NUMBERS and sign in _COMPUTE:
        return _bounded(_COMPUTE[sign](left, right))
    if kinds == {"duration"} and sign in ("+", "-"):
        return Duration(_bounded(_COMPUTE[sign](left.nanoseconds, right.nanoseconds)))
    if same and sign == "+" and kinds <= {"string", "list"}:
        return left + right
    raise NoValue(f"no such overload: {type_of(left)} {sign} {type_of(right)}")


def _contained(left: Any, right: Any) -> bool:
    if isinstance(right, dict):
        return isinstance(left, str | int) and left in right
    if isinstance(right, list):
        return any(equal(left, element) for element in right)
    raise NoValue(f"no such overload: {type_of(left)} in {type_of(right)}")


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, float):
        if right == 0:
            return float("nan") if left == 0 or left != left else float("inf") * (1 if left > 0 else -1)  # noqa: PLR0124 - NaN
        return left / right
    if right == 0:
        raise NoValue("division by zero")
    quotient = abs(left) // abs(right)  # toward zero, other than Python's
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, float):
        raise NoValue("no such overload: double % double")
    if right == 0:
        raise NoValue("modulus by zero")
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "%": _remainder,
}


def _logic(node: Node, variables: Variables, *, decisive: bool) -> bool:
    """One operand that decides is enough, on either side, even where the other one fails."""
    failure: NoValue | None = None
    for part in node.parts:
        try:
            if _bool(evaluate(part, variables)) is decisive:
                return decisive
        except NoValue as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not decisive


def _if(node: Node, variables: Variables) -> Any:
    chosen = node.parts[1] if _bool(evaluate(node.parts[0], variables)) else node.parts[2]
    return evaluate(chosen, variables)


def _macro(node: Node, variables: Variables) -> Any:
    name, variable = node.value
    target = evaluate(node.parts[0], variables)
    if not isinstance(target, dict | list):
        raise NoValue(f"no such overload: {type_of(target)}.{name}()")
    scopes = ({**variables, variable: element} for element in target)
    if name == "filter":
        return [scope[variable] for scope in scopes if _bool(evaluate(node.parts[1], scope))]
    if name == "map":
        *conditions, body = node.parts[1:]
        return [
            evaluate(body, scope)
            for scope in scopes
            if all(_bool(evaluate(condition, scope)) for condition in conditions)
        ]
    return _quantify(name, node.parts[1], scopes)


def _quantify(name: str, body: Node, scopes: Iterable[Variables]) -> bool:
    failure: NoValue | None = None
    count = 0
    for scope in scopes:
        try:
            true = _bool(evaluate(body, scope))
        except NoValue as error:
            failure = failure or error
            continue
        if (name, true) in (("exists", True), ("all", False)):
            return true
        count += true
    if failure is not None:
        raise failure
    return {"exists": False, "all": True, "exists_one": count == 1}[name]


def _call(node: Node, variables: Variables) -> Any:
    return call(node.value, [evaluate(part, variables) for part in node.parts])


_KINDS: dict[str, Callable[[Node, Variables], Any]] = {
    "literal": _literal,
    "variable": _variable,
    "list": _list,
    "map": _map,
    "member": _member,
    "has": _has,
    "index": _index,
    "unary": _unary,
    "binary": _binary,
    "if": _if,
    "macro": _macro,
    "method": _call,
    "function": _call,
}
