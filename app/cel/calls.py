"""The operators, functions and methods of CEL that the sandbox knows: their signatures, and what they compute. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from math import inf
from typing import Any

from app.cel import libraries
from app.cel.libraries import BadPattern, compiled_pattern, parse_duration
from app.cel.syntax import Node
from app.cel.types import Type
from app.errors import BerthError

TYPE_NAMES = {"bool": "bool", "int": "int", "double": "double", "string": "string", "list": "list", "map": "map",
              "null_type": "null"}  # fmt: skip
KNOWN_ELSEWHERE = frozenset({
    "uint", "timestamp", "quantity", "isQuantity", "url", "isURL", "semver", "isSemver", "optMap", "optFlatMap",
    "min", "max", "isSorted", "find", "findAll", "format", "reverse", "existsOne", "transformList",
    "transformMap", "transformMapEntry", "validate", "getHost", "getHostname", "getPort", "getScheme", "getQuery",
    "getEscapedPath", "isGreaterThan", "isLessThan", "compareTo", "asInteger", "named", "asApproximateFloat",
    "isInteger", "intersects", "equivalent", "dns1123Label", "dns1123Subdomain",
})  # fmt: skip
"""Functions of a real API server that the sandbox lacks; the error differs from that for an unknown function."""


class NoValue(BerthError):
    """The expression has no value for what it was computed on (`no such key: labels`)."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time."""

    nanoseconds: int

    def __add__(self, other: Duration) -> Duration:
        return Duration(_bounded(self.nanoseconds + other.nanoseconds))

    def __sub__(self, other: Duration) -> Duration:
        return Duration(_bounded(self.nanoseconds - other.nanoseconds))


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing: `oldSelf` under `optionalOldSelf`."""

    present: bool
    content: Any = None


def type_of(value: Any) -> str:
    """CEL's name for the type of a value."""
    return _TYPES.get(type(value), "map")


_TYPES: dict[type, str] = {
    type(None): "null", bool: "bool", int: "int", float: "double", str: "string", list: "list", Duration: "duration",
    Type: "type", Optional: "optional_type", bytes: "bytes",
    **dict.fromkeys((IPv4Address, IPv6Address), "net.IP"), **dict.fromkeys((IPv4Interface, IPv6Interface), "net.CIDR"),
}  # fmt: skip


Overload = tuple[tuple[Type, ...], Type]
"""The types of the arguments (of a method: the receiver first) and of the result."""


@dataclass(frozen=True, slots=True)
class Function:
    """What computes it, and its signatures. `name` is as messages write it."""

    name: str
    compute: Callable[..., Any]
    overloads: tuple[Overload, ...]

    def call(self, arguments: list[Any]) -> Any:
        """The value for these arguments (of a method: the receiver first); raises `NoValue`."""
        kinds = [type_of(argument) for argument in arguments]
        if not any(
            len(signature) == len(kinds) and all(map(_accepts, signature, kinds)) for signature, _ in self.overloads
        ):
            raise NoValue(f"no such overload: {_applied(self.name, kinds)}")
        try:
            return self.compute(*arguments)
        except libraries.BadAddressError as error:
            raise NoValue(str(error)) from error


def function_of(node: Node) -> Function | None:
    """What an operation, a method or a function of an expression calls; None for one that the sandbox lacks."""
    return {"method": METHODS, "function": FUNCTIONS}.get(node.kind, OPERATORS).get(node.value)


def _accepts(declared: Type, kind: str) -> bool:
    return declared.name in (kind, "A", "dyn")


def _applied(name: str, kinds: list[str]) -> str:
    if name == "_[_]":
        return f"{kinds[0]}[{kinds[1]}]"
    if name not in OPERATORS:
        return f"{name}({', '.join(kinds)})"
    return f" {name.strip('_@')} ".join(kinds) if len(kinds) == 2 else f"{name.strip('_')}{kinds[0]}"


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise NoValue("integer overflow")
    return value


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, float):
        return left / right if right else left * inf
    if right == 0:
        raise NoValue("division by zero")
    quotient = abs(left) // abs(right)  # toward zero, other than Python's
    return _bounded(quotient if (left < 0) == (right < 0) else -quotient)


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise NoValue("modulus by zero")
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def _contained(value: Any, holder: Any) -> bool:
    if isinstance(holder, dict):
        return isinstance(value, str | int) and value in holder
    return any(equal(value, element) for element in holder)


def _item(target: Any, key: Any) -> Any:
    if isinstance(target, dict):
        if isinstance(key, str | int) and key in target:
            return target[key]
        raise NoValue(f"no such key: {key}")
    if 0 <= key < len(target):
        return target[key]
    raise NoValue(f"index out of bounds: {key}")


def _matches(text: str, pattern: str) -> bool:
    try:
        return compiled_pattern(pattern).search(text) is not None
    except BadPattern as error:
        raise NoValue(str(error)) from error


def _find(target: Any, item: Any, *, last: bool = False) -> int:
    if isinstance(target, str):
        return target.rfind(item) if last else target.find(item)
    places = [index for index, element in enumerate(target) if equal(element, item)]
    return places[-1 if last else 0] if places else -1


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise NoValue(f"index out of range: {index}")
    return text[index : index + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise NoValue(f"index out of range: {index}")
    if start > end:
        raise NoValue(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _join(words: list[Any], separator: str = "") -> str:
    if not all(isinstance(word, str) for word in words):
        raise NoValue("no such overload: join of what is not all string")
    return separator.join(words)


def _sum(numbers: list[Any]) -> Any:
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        raise NoValue("no such overload: sum of what is not all numbers")
    return _bounded(sum(numbers))


def _value(optional: Optional) -> Any:
    if not optional.present:
        raise NoValue("optional.none() dereference")
    return optional.content


def _string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Duration):
        return f"{value.nanoseconds / 10**9:.9f}".rstrip("0").rstrip(".") + "s"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


def _bytes(value: str | bytes) -> bytes:
    return value.encode(errors="replace") if isinstance(value, str) else value


def _parsed(parse: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """A conversion to numbers; `name` is what Go's function for it ends with."""

    def convert(value: Any) -> Any:
        try:
            return _bounded(parse(value))
        except (ValueError, OverflowError) as error:
            raise NoValue(f'strconv.Parse{name}: parsing "{value}": invalid syntax') from error

    return convert


def duration(value: Any) -> Duration:
    """A duration of its text; raises `NoValue`."""
    if isinstance(value, Duration):
        return value
    try:
        return Duration(parse_duration(value))
    except ValueError as error:
        raise NoValue(f"time: {error}") from error


def _whole(unit: int) -> Callable[[Duration], int]:
    return lambda span: span.nanoseconds // unit if span.nanoseconds >= 0 else -(-span.nanoseconds // unit)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value not in ("1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"):
        raise NoValue(f'strconv.ParseBool: parsing "{value}": invalid syntax')
    return value[0] in "1tT"


def equal(left: Any, right: Any) -> bool:
    """CEL's equality: numbers by value, bools are not numbers, at any depth."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in _LOWER}


def _type(text: str) -> Type:
    name, _, parts = text.rstrip(")").partition("(")
    return Type(name, tuple(map(Type, parts.split(",")))) if parts else Type(name)


def _overload(signature: str) -> Overload:
    arguments, _, result = signature.partition(": ")
    return tuple(map(_type, arguments.split())), _type(result)


def _table(*rows: tuple[str, Callable[..., Any], str]) -> dict[str, Function]:
    """Functions by name. Signatures are written `list(A) int: A | string int: string`: arguments, then the result."""
    return {
        name: Function(name, compute, tuple(map(_overload, signatures.split(" | "))))
        for name, compute, signatures in rows
    }


_SIZES = "string: int | bytes: int | list(dyn): int | map(dyn,dyn): int"
_TEST, _CHANGE, _PART, _SAME = "string string: bool", "string: string", "duration: int", "A A: bool"
_TEXTS = "string: string | int: string | double: string | bool: string"
_NUMBERS = "int int: int | double double: double"
_SPANS = f"{_NUMBERS} | duration duration: duration"
_ORDER = (
    "int int: bool | int double: bool | double int: bool | double double: bool | string string: bool | bool bool: bool"
    " | duration duration: bool"
)
OPERATORS = _table(
    ("!_", lambda value: not value, "bool: bool"),
    ("-_", lambda value: _bounded(-value), "int: int | double: double"),
    ("_+_", lambda left, right: _bounded(left + right), f"{_SPANS} | string string: string | list(A) list(A): list(A)"),
    ("_-_", lambda left, right: _bounded(left - right), _SPANS),
    ("_*_", lambda left, right: _bounded(left * right), _NUMBERS),
    ("_/_", _divide, _NUMBERS),
    ("_%_", _remainder, "int int: int | uint uint: uint"),  # with two signatures, dyn % dyn is dyn
    ("_==_", equal, _SAME),
    ("_!=_", lambda left, right: not equal(left, right), _SAME),
    ("_<_", lambda left, right: left < right, _ORDER),
    ("_<=_", lambda left, right: left <= right, _ORDER),
    ("_>_", lambda left, right: left > right, _ORDER),
    ("_>=_", lambda left, right: left >= right, _ORDER),
    ("@in", _contained, "A list(A): bool | A map(A,B): bool"),
    ("_[_]", _item, "list(A) int: A | map(A,B) A: B"),
)
METHODS = _table(
    ("startsWith", str.startswith, _TEST),
    ("endsWith", str.endswith, _TEST),
    ("contains", lambda text, part: part in text, _TEST),
    ("matches", _matches, _TEST),
    ("size", len, _SIZES),
    ("lowerAscii", lambda text: text.translate(_LOWER), _CHANGE),
    ("upperAscii", lambda text: text.translate(_UPPER), _CHANGE),
    ("trim", str.strip, _CHANGE),
    ("charAt", _char_at, "string int: string"),
    ("indexOf", _find, "string string: int | list(A) A: int"),
    ("lastIndexOf", partial(_find, last=True), "string string: int | list(A) A: int"),
    ("replace", str.replace, "string string string: string"),
    ("split", lambda text, mark: text.split(mark) if mark else list(text), "string string: list(string)"),
    ("substring", _substring, "string int: string | string int int: string"),
    ("join", _join, "list(string): string | list(string) string: string"),
    ("sum", _sum, "list(int): int | list(double): double"),
    ("hasValue", lambda optional: optional.present, "optional_type(A): bool"),
    ("value", _value, "optional_type(A): A"),
    ("orValue", lambda optional, other: optional.content if optional.present else other, "optional_type(A) A: A"),
    ("getHours", _whole(3600 * 10**9), _PART),
    ("getMinutes", _whole(60 * 10**9), _PART),
    ("getSeconds", _whole(10**9), _PART),
    ("getMilliseconds", _whole(10**6), _PART),
    *libraries.METHODS,
)
FUNCTIONS = _table(
    ("size", len, _SIZES),
    ("matches", _matches, _TEST),
    ("duration", duration, "string: duration | duration: duration"),
    ("string", _string, f"{_TEXTS} | duration: string | net.IP: string | net.CIDR: string"),
    ("bytes", _bytes, "string: bytes | bytes: bytes"),
    *libraries.FUNCTIONS,
    ("int", _parsed(int, "Int"), "string: int | int: int | double: int"),
    ("double", _parsed(float, "Float"), "string: double | int: double | double: double"),
    ("bool", _truth, "string: bool | bool: bool"),
    ("dyn", lambda value: value, "A: dyn"),
    ("type", lambda value: Type(type_of(value)), "A: type"),
)
