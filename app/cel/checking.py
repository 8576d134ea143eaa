"""Whether the parts of a CEL tree fit together, judged by types before anything is computed, as the API server does.

Pure. Messages and places are the server's; what the server knows and the sandbox does not is refused in words of its
own ("the sandbox does not speak ..."), so that no rule is ever ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.cel.calls import FUNCTIONS, KNOWN_ELSEWHERE, METHODS, TYPE_NAMES, Overload
from app.cel.schemaformats import BadPattern, compiled_pattern, parse_duration
from app.cel.syntax import Node
from app.cel.tokens import BadExpression, Fault, located
from app.cel.types import BOOL, DOUBLE, DYN, INT, NULL, STRING, TYPE, Type, filled, fits, join, list_of, map_of

_LITERALS: dict[type, Type] = {bool: BOOL, int: INT, float: DOUBLE, str: STRING, type(None): NULL}
_NUMBERS = frozenset({"int", "double"})
_ARITHMETIC: dict[str, frozenset[str]] = {
    "+": frozenset({"int", "double", "string", "list", "duration"}),
    "-": _NUMBERS | {"duration"},
    "*": _NUMBERS,
    "/": _NUMBERS,
    "%": frozenset({"int"}),
}


def check(expression: str, node: Node, variables: Mapping[str, Type]) -> Type:
    """The type of the tree of `expression`; raises `BadExpression` with everything that does not fit."""
    return check_parts(expression, node, variables)[id(node)]


def check_parts(expression: str, node: Node, variables: Mapping[str, Type]) -> dict[int, Type]:
    """The types of all parts of the tree, by their identity; raises `BadExpression`."""
    checker = _Checker()
    checker.visit(node, variables)
    if checker.faults:
        raise BadExpression(located(expression, checker.faults))
    return checker.kinds


class _Checker:
    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.kinds: dict[int, Type] = {}

    def _fault(self, text: str, at: int) -> Type:
        self.faults.append(Fault(text, at))
        return DYN

    def visit(self, node: Node, scope: Mapping[str, Type]) -> Type:
        kind = self.kinds[id(node)] = self._visit(node, scope)
        return kind

    def _visit(self, node: Node, scope: Mapping[str, Type]) -> Type:
        match node.kind:
            case "literal":
                return _LITERALS[type(node.value)]
            case "variable":
                return self._variable(node, scope)
            case "list":
                return list_of(self._common([(part, self.visit(part, scope)) for part in node.parts]))
            case "map":
                entries = [(part, self.visit(part, scope)) for part in node.parts]
                return map_of(self._common(entries[::2]), self._common(entries[1::2]))
            case "member" | "has":
                return self._member(node, scope)
            case "macro":
                return self._macro(node, scope)
        return self._operation(node, [self.visit(part, scope) for part in node.parts])

    def _operation(self, node: Node, kinds: list[Type]) -> Type:
        match node.kind:
            case "index":
                return self._index(node, kinds)
            case "unary":
                return self._unary(node, kinds[0])
            case "binary":
                return self._binary(node, kinds)
            case "if":
                return self._if(node, kinds)
        return self._call(node, kinds)

    def _variable(self, node: Node, scope: Mapping[str, Type]) -> Type:
        if node.value in scope:
            return scope[node.value]
        if node.value in TYPE_NAMES:
            return TYPE
        if node.value in ("format", "sets", "math", "optional"):
            return self._fault(f"the sandbox does not speak {node.value}", node.at)
        return self._fault(f"undeclared reference to '{node.value}' (in container '')", node.at)

    def _common(self, elements: list[tuple[Node, Type]]) -> Type:
        """What the elements of a literal have in common; a literal of mixed types is an error."""
        if not elements:
            return DYN
        common = elements[0][1]
        for node, kind in elements[1:]:
            joined = join(common, kind)
            if joined is None:
                return self._fault(f"expected type '{common}' but found '{kind}'", node.at)
            common = joined
        return common

    def _member(self, node: Node, scope: Mapping[str, Type]) -> Type:
        target = self.visit(node.parts[0], scope)
        result = self._field(node, target)
        return BOOL if node.kind == "has" else result

    def _field(self, node: Node, target: Type) -> Type:
        if target.name == "dyn":
            return DYN
        if target.name == "optional_type" and target.parts[0].fields is not None:
            return self._fault("the sandbox does not speak members of optional values", node.at)
        if target.name == "map":
            return target.parts[1]
        if target.fields is None:
            return self._fault(f"type '{target}' does not support field selection", node.at)
        if node.value not in target.fields:
            return self._fault(f"undefined field '{node.value}'", node.at)
        found = target.fields[node.value]
        if found.name == "opaque":
            return self._fault(f"the sandbox does not speak {found.parts[0]}", node.at)
        return found

    def _macro(self, node: Node, scope: Mapping[str, Type]) -> Type:
        name, variable = node.value
        source = self.visit(node.parts[0], scope)
        element = DYN
        if source.name in ("list", "map"):
            element = source.parts[0]
        elif source.name != "dyn":
            text = f"expression of type '{source}' cannot be range of a comprehension (must be list, map, or dynamic)"
            self._fault(text, node.parts[0].at)
        inner = {**scope, variable: element}
        conditions = node.parts[1:] if name != "map" else node.parts[1:-1]
        for condition in conditions:
            self._wants_bool(condition, self.visit(condition, inner))
        if name == "map":
            return list_of(self.visit(node.parts[-1], inner))
        return list_of(element) if name == "filter" else BOOL

    def _wants_bool(self, node: Node, kind: Type) -> None:
        if kind.name not in ("bool", "dyn"):
            self._fault(f"expected type 'bool' but found '{kind}'", node.at)

    def _index(self, node: Node, kinds: list[Type]) -> Type:
        target, key = kinds
        if target.name == "dyn":
            return DYN
        if target.name == "list" and key.name in ("int", "dyn"):
            return target.parts[0]
        if target.name == "map" and join(target.parts[0], key) is not None:
            return target.parts[1]
        return self._mismatch(node, "_[_]", kinds)

    def _mismatch(self, node: Node, name: str, kinds: list[Type]) -> Type:
        given = ", ".join(str(kind) for kind in kinds)
        return self._fault(f"found no matching overload for '{name}' applied to '({given})'", node.at)

    def _unary(self, node: Node, kind: Type) -> Type:
        allowed = {"bool"} if node.value == "!" else _NUMBERS
        if kind.name in allowed:
            return kind
        if kind.name == "dyn":
            return BOOL if node.value == "!" else DYN
        return self._mismatch(node, "!_" if node.value == "!" else "-_", [kind])

    def _binary(self, node: Node, kinds: list[Type]) -> Type:
        sign = node.value
        left, right = kinds
        if sign in ("&&", "||"):
            for part, kind in zip(node.parts, kinds, strict=True):
                self._wants_bool(part, kind)
            return BOOL
        if sign in ("==", "!="):
            return BOOL if join(left, right) is not None else self._mismatch(node, f"_{sign}_", kinds)
        if sign == "in":
            holds = right.name == "dyn" or (right.name in ("list", "map") and join(left, right.parts[0]) is not None)
            return BOOL if holds else self._mismatch(node, "@in", kinds)
        if sign in _ARITHMETIC:
            return self._arithmetic(node, kinds)
        names = {left.name, right.name} - {"dyn"}
        if names <= _NUMBERS or names in ({"string"}, {"bool"}, {"duration"}):
            return BOOL
        return self._mismatch(node, f"_{sign}_", kinds)

    def _arithmetic(self, node: Node, kinds: list[Type]) -> Type:
        common = join(*kinds)
        if common is None or any(kind.name not in ("dyn", *_ARITHMETIC[node.value]) for kind in kinds):
            return self._mismatch(node, f"_{node.value}_", kinds)
        # A dyn operand is of the other one's type, or the sum has no value.
        return next((kind for kind in kinds if kind.name != "dyn"), DYN) if common.name == "dyn" else common

    def _if(self, node: Node, kinds: list[Type]) -> Type:
        self._wants_bool(node.parts[0], kinds[0])
        common = join(kinds[1], kinds[2])
        return common if common is not None else self._mismatch(node, "_?_:_", kinds)

    def _call(self, node: Node, kinds: list[Type]) -> Type:
        method = node.kind == "method"
        name = str(node.value)
        function = (METHODS if method else FUNCTIONS).get(name)
        if function is None:
            if name in KNOWN_ELSEWHERE:
                return self._fault(f"the sandbox does not speak {name}()", node.at)
            return self._fault(f"undeclared reference to '{name}' (in container '')", node.at)
        results = [result for overload in function[1] if (result := _result(overload, kinds)) is not None]
        if not results:
            given = ", ".join(str(kind) for kind in kinds[1:] if method) if method else ""
            applied = f"{kinds[0]}.({given})" if method else f"({', '.join(str(kind) for kind in kinds)})"
            return self._fault(f"found no matching overload for '{name}' applied to '{applied}'", node.at)
        if name in ("matches", "duration"):
            self._check_literal(name, node.parts[-1])
        return results[0] if all(result == results[0] for result in results) else DYN

    def _check_literal(self, name: str, node: Node) -> None:
        if node.kind != "literal":
            return
        try:
            (compiled_pattern if name == "matches" else parse_duration)(node.value)
        except (BadPattern, ValueError):
            self._fault(f"invalid {name} argument", node.at)


def _result(overload: Overload, kinds: list[Type]) -> Type | None:
    wanted, result = overload
    bound: dict[str, Type] = {}
    if len(wanted) != len(kinds) or not all(fits(*pair, bound) for pair in zip(kinds, wanted, strict=True)):
        return None
    return filled(result, bound)
