"""Computes trees of CEL by its rules: absent keys are errors, `||` and `&&` forgive one.

Pure. Values are plain JSON, and the few of `calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from app.cel.calls import TYPE_NAMES, NoValue, function_of, type_of
from app.cel.syntax import Node, unescaped
from app.cel.types import Type

Variables = Mapping[str, Any]


def evaluate(node: Node, variables: Variables) -> Any:
    """The value of the tree; raises `NoValue`."""
    return _KINDS[node.kind](node, variables)


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


def _member(node: Node, variables: Variables) -> Any:
    """The value of a field; of `has`, whether it is there."""
    target = evaluate(node.parts[0], variables)
    if not isinstance(target, dict):
        member = f"{type_of(target)}.{node.value}"
        raise NoValue(f"no such overload: {member if node.kind == 'member' else f'has({member})'}")
    key = node.value if node.value in target else unescaped(node.value)
    if node.kind == "has":
        return key in target
    if key not in target:
        raise NoValue(f"no such key: {key}")
    return target[key]


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise NoValue(f"no such overload: {type_of(value)} where bool is needed")


def _operation(node: Node, variables: Variables) -> Any:
    """An operator, a function or a method."""
    if node.value in ("_&&_", "_||_"):
        return _decided(((part, variables) for part in node.parts), decisive=node.value == "_||_")
    function = function_of(node)
    if function is None:
        raise NoValue(f"unknown function: {node.value}")
    return function.call([evaluate(part, variables) for part in node.parts])


def _decided(operands: Iterable[tuple[Node, Variables]], *, decisive: bool) -> bool:
    """One operand that decides is enough, even where others before it or after it fail."""
    failure: NoValue | None = None
    for node, variables in operands:
        try:
            if _bool(evaluate(node, variables)) is decisive:
                return decisive
        except NoValue as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not decisive


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
    if name == "exists_one":
        return sum(_bool(evaluate(node.parts[1], scope)) for scope in scopes) == 1
    return _decided(((node.parts[1], scope) for scope in scopes), decisive=name == "exists")


_KINDS: dict[str, Callable[[Node, Variables], Any]] = {
    "literal": lambda node, _: node.value,
    "variable": lambda node, variables: (
        variables[node.value] if node.value in variables else Type(TYPE_NAMES[node.value])
    ),
    "list": lambda node, variables: [evaluate(part, variables) for part in node.parts],
    "map": _map,
    "member": _member,
    "has": _member,
    "if": lambda node, variables: evaluate(
        node.parts[1 if _bool(evaluate(node.parts[0], variables)) else 2], variables
    ),
    "macro": _macro,
    **dict.fromkeys(("index", "unary", "binary", "method", "function"), _operation),
}
