"""The types of CEL as far as the sandbox knows them, and when one may stand where another is wanted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Type:
    """`name` is CEL's; `parts` are the element types of a list, map or optional; `fields` those of an object."""

    name: str
    parts: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = field(default=None, hash=False)

    def __str__(self) -> str:
        if not self.parts:
            return self.name
        return f"{self.name}({', '.join(str(part) for part in self.parts)})"

    @property
    def nullable(self) -> bool:
        """Whether null may stand for it: for messages, and what may be absent."""
        return self.fields is not None or self.name in ("object", "optional_type")


DYN = Type("dyn")
BOOL = Type("bool")
INT = Type("int")
DOUBLE = Type("double")
STRING = Type("string")
DURATION = Type("duration")
TYPE = Type("type")

_VARIABLES = frozenset({"A", "B"})
"""Each stands for any one type in a signature, the same one wherever it stands."""


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


def opaque(what: str) -> Type:
    """Values that the sandbox cannot compute with; `what` says of what kind they are."""
    return Type("opaque", (Type(what),))


def join(left: Type, right: Type) -> Type | None:
    """The type that both have in common, None where there is none."""
    if left.name == "dyn" or right.name == "dyn":
        return DYN
    if left.name == "null" and right.nullable:
        return right
    if right.name == "null" and left.nullable:
        return left
    if left.name != right.name or len(left.parts) != len(right.parts):
        return None
    if left.fields is not None or right.fields is not None:
        return left if left.fields == right.fields else None
    parts = tuple(part for pair in zip(left.parts, right.parts, strict=True) if (part := join(*pair)) is not None)
    return Type(left.name, parts) if len(parts) == len(left.parts) else None


def fits(given: Type, declared: Type, bound: dict[str, Type]) -> bool:
    """Whether `given` may stand for `declared`, a part of a signature; `bound` keeps what its variables stand for."""
    if declared.name in _VARIABLES:
        common = join(bound.get(declared.name, given), given)
        if common is not None:
            bound[declared.name] = common
        return common is not None
    if given.name == "dyn" or declared.name == "dyn":
        return True
    if given.name != declared.name or len(given.parts) != len(declared.parts):
        return False
    return all(fits(mine, theirs, bound) for mine, theirs in zip(given.parts, declared.parts, strict=True))


def filled(result: Type, bound: Mapping[str, Type]) -> Type:
    """The result of a signature with its variables replaced by what they stand for."""
    if result.name in _VARIABLES:
        return bound.get(result.name, DYN)
    return Type(result.name, tuple(filled(part, bound) for part in result.parts))
