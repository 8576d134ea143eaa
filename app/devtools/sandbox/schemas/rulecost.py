"""What a rule may cost at most: the API server's estimate of cel-go, from the sizes that a schema allows. Pure.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#resource-use-by-validation-functions
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from app.cel.syntax import Node, escaped
from app.cel.types import Type
from app.wire import JSON

MOST = 2**64 - 1
REQUEST = 3 * 1024 * 1024
"""Bytes of a request: no value is larger."""
_TRAVERSAL, _PATTERN = 0.1, 0.25
_SCALARS = frozenset({"bool", "int", "double", "duration"})
_FORMATS = {"duration": (32, 3), "date": (12, 12), "date-time": (32, 21)}
"""The most characters of a format and the fewest bytes of its JSON."""


@dataclass(frozen=True, slots=True)
class Sized:
    """How many elements a value has at most, and how many bytes its JSON has at least."""

    most: int = 0
    fewest: int = 2
    element: Sized | None = None
    fields: Mapping[str, Sized] = field(default_factory=dict)

    def step(self, name: str) -> Sized | None:
        if name == "@keys":
            return Sized() if self.element is not None else None
        return self.element if name == "@items" else self.fields.get(name)


def sized(schema: JSON, *, root: bool = False) -> Sized:
    """The sizes that the schema allows."""
    resource = root or bool(schema.get("x-kubernetes-embedded-resource"))
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return Sized(_characters(schema), 1)
    if kind == "array":
        element = sized(schema.get("items") or {})
        return Sized(schema.get("maxItems", (REQUEST - 2) // (element.fewest + 1)), 2, element)
    if kind == "object":
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            element = sized(extra)
            return Sized(schema.get("maxProperties", (REQUEST - 2) // (element.fewest + 6)), 2, element)
        return _object(schema, resource=resource)
    if kind == "string":
        return Sized(_characters(schema), _FORMATS.get(schema.get("format", ""), (0, 2))[1])
    return Sized(0, 4 if kind == "boolean" else 1)


def _object(schema: JSON, *, resource: bool) -> Sized:
    properties: JSON = schema.get("properties") or {}
    if resource:
        text: JSON = {"type": "string"}
        names: JSON = {"type": "object", "properties": {"name": text, "generateName": text}}
        properties = {**properties, "kind": text, "apiVersion": text, "metadata": names}
    fields = {name: sized(inner) for name, inner in properties.items()}
    required = [name for name in schema.get("required") or [] if "default" not in properties.get(name, {"default": 0})]
    fewest = 2 + sum(len(name) + fields[name].fewest + 4 for name in required)
    return Sized(0, fewest, None, {escaped(name) or "": inner for name, inner in fields.items()})


def _characters(schema: JSON) -> int:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]][0]
    if "maxLength" in schema:
        return int(schema["maxLength"]) * (1 if schema.get("format") == "byte" else 4)
    texts = [len(one.encode()) for one in schema.get("enum") or [] if isinstance(one, str)]
    return max(texts, default=REQUEST - 2)


@dataclass(frozen=True, slots=True)
class _Estimate:
    """`cost` of a part, `size` of its value and `entry` of an element of it; None where `place` says it or nothing."""

    cost: int
    size: int | None = None
    place: tuple[Sized | None] | None = None
    """The place in the schema, where a path leads to the part: None inside where the path leaves the schema."""
    entry: int | None = None


def estimate(node: Node, kinds: Mapping[int, Type], root: Sized) -> int:
    """The highest cost of one run; `kinds` are the types of all parts by their identity."""
    return min(_Estimator(kinds, root).visit(node, {}).cost, MOST)


class _Estimator:
    def __init__(self, kinds: Mapping[int, Type], root: Sized) -> None:
        self._kinds = kinds
        self._root = root

    def _kind(self, node: Node) -> str:
        return self._kinds[id(node)].name

    def _step(self, part: _Estimate, name: str) -> tuple[Sized | None]:
        if part.place is None:
            return (self._root,)  # as cel-go: it takes the first name of any path for the variable
        return (part.place[0].step(name) if part.place[0] is not None else None,)

    def _size(self, node: Node, part: _Estimate) -> int:
        if part.size is not None and node.kind != "variable":
            return min(part.size, MOST)
        if part.place is not None and part.place[0] is not None:
            return part.place[0].most
        kind = self._kinds[id(node)]
        scalar = kind.parts[0].name if kind.name == "optional_type" else kind.name
        if scalar in _SCALARS:
            return 1
        return MOST if part.size is None else part.size

    def visit(self, node: Node, local: Mapping[str, _Estimate]) -> _Estimate:
        if node.kind == "literal":
            return _Estimate(0, len(node.value) if isinstance(node.value, str) else 1)
        if node.kind == "variable":
            return local.get(node.value) or _Estimate(1, place=(self._root,))
        if node.kind == "macro":
            return self._macro(node, local)
        return self._operation(node, [self.visit(part, local) for part in node.parts])

    def _operation(self, node: Node, parts: list[_Estimate]) -> _Estimate:
        sizes = [self._size(part, one) for part, one in zip(node.parts, parts, strict=True)]
        cost = sum(part.cost for part in parts)
        match node.kind:
            case "member":
                selects = self._kind(node.parts[0]) in ("object", "map")
                name = "@items" if self._kind(node.parts[0]) == "map" else node.value
                return _Estimate(cost + selects, place=self._step(parts[0], name))
            case "has":
                return _Estimate(cost)
            case "index":
                return _Estimate(cost + 1, parts[0].entry, self._step(parts[0], "@items"))
            case "list":
                return _Estimate(cost + 10, len(parts), entry=max(sizes, default=0))
            case "map":
                return _Estimate(cost + 30, len(parts) // 2, entry=max(sizes[::2], default=0))
            case "if":
                dearer = max(parts[1].cost, parts[2].cost)
                return _Estimate(parts[0].cost + dearer, max(sizes[1:]), entry=_largest(parts[1:]))
            case "binary":
                return self._binary(node, parts, sizes, cost)
        return self._call(node, parts, sizes, cost)

    def _binary(self, node: Node, parts: list[_Estimate], sizes: list[int], cost: int) -> _Estimate:
        kinds = {self._kind(part) for part in node.parts}
        texts = kinds <= {"string", "dyn"}
        match node.value:
            case "_&&_" | "_||_":
                return _Estimate(cost)
            case "_==_" | "_!=_":
                return _Estimate(cost + _traversal(min(sizes)))
            case "_<_" | "_<=_" | "_>_" | "_>=_" if texts:
                return _Estimate(cost + max("dyn" in kinds, _traversal(min(sizes))))
            case "_+_" if texts:
                return _Estimate(cost + max("dyn" in kinds, _traversal(sum(sizes))), sum(sizes))
            case "_+_" if "list" in kinds:
                return _Estimate(cost + 1, sum(sizes), entry=_largest(parts))
            case "@in" if self._kind(node.parts[1]) != "map":
                return _Estimate(cost + max(sizes[1], self._kind(node.parts[1]) == "dyn"))
        return _Estimate(cost + 1)

    def _call(self, node: Node, parts: list[_Estimate], sizes: list[int], cost: int) -> _Estimate:
        target = sizes[0] if sizes else 0
        if node.kind == "function" and node.value in ("ip", "isIP", "cidr", "isCIDR", "bytes"):
            return _Estimate(cost + _traversal(target), target)
        match node.value if node.kind == "method" else "":
            case "startsWith" | "endsWith":
                return _Estimate(cost + _traversal(sizes[1]))
            case "matches":
                return _Estimate(cost + _traversal(target + 1) * ceil(sizes[1] * _PATTERN))
            case "contains":
                return _Estimate(cost + _traversal(target) * _traversal(sizes[1]))
            case "lowerAscii" | "upperAscii" | "substring" | "trim":
                return _Estimate(cost + _traversal(target), target)
            case "split":
                return _Estimate(cost + _traversal(2 * target), target)
            case "replace":
                return _Estimate(cost + _traversal(2 * target), _replaced(node, sizes))
        return self._list_call(node, parts, sizes, cost)

    def _list_call(self, node: Node, parts: list[_Estimate], sizes: list[int], cost: int) -> _Estimate:
        if node.value == "join":
            total = sizes[0] * self._element(node.parts[0], parts[0]) + sum(sizes[1:]) * max(sizes[0] - 1, 0)
            return _Estimate(cost + _traversal(total), total)
        if node.value in ("indexOf", "lastIndexOf"):
            kind = self._kinds[id(node.parts[0])]
            if kind.name != "list":
                return _Estimate(cost + _traversal(sizes[0]))
            text = kind.parts[0].name == "string"
            return _Estimate(cost + sizes[0] * (1 + text * _traversal(self._element(node.parts[0], parts[0]))))
        if node.value == "sum":
            return _Estimate(cost + sizes[0])
        if node.value == "dyn":
            return _Estimate(cost + 1, sizes[0], entry=parts[0].entry)
        return _Estimate(cost + 1)

    def _element(self, node: Node, part: _Estimate) -> int:
        """The size of an element of a list, as functions of Kubernetes ask for it: where a path leads to the list."""
        place = self._step(part, "@items")[0] if part.place is not None else None
        return MOST if place is None or self._kind(node) != "list" else place.most

    def _macro(self, node: Node, local: Mapping[str, _Estimate]) -> _Estimate:
        name, variable = node.value
        source = self.visit(node.parts[0], local)
        count = self._size(node.parts[0], source)
        step = "@keys" if self._kind(node.parts[0]) == "map" else "@items"
        element = _Estimate(1, source.entry, self._step(source, step))
        scope = {**local, variable: element}
        bodies = [self.visit(part, scope) for part in node.parts[1:]]
        costs = sum(body.cost for body in bodies)
        if name == "map":
            # [] at first; in each turn `accumulated + [body]`; the accumulated list at last.
            entry = self._size(node.parts[-1], bodies[-1])
            return _Estimate(source.cost + 10 + _times(count, costs + 12) + 1, count, entry=entry)
        if name == "filter":
            return _Estimate(source.cost + 10 + _times(count, costs + 13) + 1, count, entry=_most(element))
        turn, last = {"all": (3, 1), "exists": (4, 1), "exists_one": (2, 2)}[name]
        return _Estimate(source.cost + _times(count, costs + turn) + last)


def _largest(parts: list[_Estimate]) -> int | None:
    """The size of the largest element of any part; None where a part's elements are unknown."""
    entries = [part.entry for part in parts if part.entry is not None]
    return max(entries) if len(entries) == len(parts) else None


def _most(part: _Estimate) -> int:
    place = part.place[0] if part.place is not None else None
    return place.most if place is not None else (MOST if part.size is None else part.size)


def _times(count: int, cost: int) -> int:
    return min(count * cost, MOST)


def _traversal(size: int) -> int:
    return min(ceil(size * _TRAVERSAL), MOST)


def _replaced(node: Node, sizes: list[int]) -> int:
    """The longest text after all replacements: the shortest text is replaced by the longest one."""
    text, _, new = sizes[:3]
    wanted = node.parts[1]
    fewest = len(wanted.value) if wanted.kind == "literal" else 0
    if not fewest:
        return (text + 1) * new + text
    return text if new <= fewest else ceil(text / fewest) * new
