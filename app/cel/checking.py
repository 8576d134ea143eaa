"""Whether the parts of a CEL tree fit together, judged by types before anything is computed, as the API server does.

Pure. Messages and places are the server's; what the server knows and the sandbox does not is refused in words of its
own ("the sandbox does not speak ..."), so that no rule is ever ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.cel.calls import KNOWN_ELSEWHERE, TYPE_NAMES, Overload, function_of, type_of
from app.cel.libraries import BadPattern, compiled_pattern, parse_duration
from app.cel.syntax import BadExpression, Fault, Node, located
from app.cel.types import BOOL, DYN, TYPE, Type, filled, fits, join, list_of, map_of


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
                return Type(type_of(node.value))
            case "variable":
                return self._variable(node, scope)
            case "list":
                return list_of(self._common([(part, self.visit(part, scope)) for part in node.parts]))
            case "map":
                entries = [(part, self.visit(part, scope)) for part in node.parts]
                return map_of(self._common(entries[::2]), self._common(entries[1::2]))
            case "member" | "has":
                result = self._field(node, self.visit(node.parts[0], scope))
                return BOOL if node.kind == "has" else result
            case "macro":
                return self._macro(node, scope)
        kinds = [self.visit(part, scope) for part in node.parts]
        if node.kind == "if":
            self._wants_bool(node.parts[0], kinds[0])
            return join(kinds[1], kinds[2]) or self._mismatch(node, "_?_:_", kinds)
        if node.value in ("_&&_", "_||_"):
            for part, kind in zip(node.parts, kinds, strict=True):
                self._wants_bool(part, kind)
            return BOOL
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
        common = elements[0][1] if elements else DYN
        for node, kind in elements[1:]:
            joined = join(common, kind)
            if joined is None:
                return self._fault(f"expected type '{common}' but found '{kind}'", node.at)
            common = joined
        return common

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
        kind = target.fields[node.value]
        if kind.name == "opaque":
            return self._fault(f"the sandbox does not speak {kind.parts[0]}", node.at)
        return kind

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

    def _call(self, node: Node, kinds: list[Type]) -> Type:
        function = function_of(node)
        if function is None:
            if node.value in KNOWN_ELSEWHERE:
                return self._fault(f"the sandbox does not speak {node.value}()", node.at)
            return self._fault(f"undeclared reference to '{node.value}' (in container '')", node.at)
        results = [result for overload in function.overloads if (result := _result(overload, kinds)) is not None]
        if not results:
            return self._mismatch(node, function.name, kinds)
        if function.name in ("matches", "duration"):
            self._check_literal(function.name, node.parts[-1])
        return results[0] if all(result == results[0] for result in results) else DYN

    def _mismatch(self, node: Node, name: str, kinds: list[Type]) -> Type:
        receiver, given = ("", kinds) if node.kind != "method" else (f"{kinds[0]}.", kinds[1:])
        applied = f"{receiver}({', '.join(map(str, given))})"
        return self._fault(f"found no matching overload for '{name}' applied to '{applied}'", node.at)

    def _check_literal(self, name: str, node: Node) -> None:
        if node.kind != "literal":
            return
        try:
            (compiled_pattern if name == "matches" else parse_duration)(node.value)
        except (BadPattern, ValueError):
            self._fault(f"invalid {name} argument", node.at)


def _result(overload: Overload, kinds: list[Type]) -> Type | None:
    parameters, result = overload
    bound: dict[str, Type] = {}
    if len(parameters) != len(kinds) or not all(fits(*pair, bound) for pair in zip(kinds, parameters, strict=True)):
        return None
    return filled(result, bound)
