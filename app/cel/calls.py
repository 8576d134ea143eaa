"""The functions and methods of CEL that the sandbox knows: their signatures, and what they compute. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.cel.schemaformats import BadPattern, compiled_pattern, parse_duration
from app.cel.types import ANY, BOOL, DOUBLE, DURATION, DYN, INT, STRING, TYPE, Type, list_of, map_of, optional_of
from app.errors import BerthError

Overload = tuple[tuple[Type, ...], Type]
"""The types of the arguments (of a method: the receiver first) and of the result."""

_MAPS = map_of(DYN, DYN)
_WORDS = list_of(STRING)
_SIZES: tuple[Overload, ...] = (((STRING,), INT), ((list_of(DYN),), INT), ((_MAPS,), INT))
_TEST: tuple[Overload, ...] = (((STRING, STRING), BOOL),)
_CHANGE: tuple[Overload, ...] = (((STRING,), STRING),)

_PARTS: tuple[Overload, ...] = (((DURATION,), INT),)

TYPE_NAMES = {"bool": "bool", "int": "int", "double": "double", "string": "string", "list": "list", "map": "map",
              "null_type": "null"}  # fmt: skip
KNOWN_ELSEWHERE = frozenset({
    "bytes", "uint", "timestamp", "quantity", "isQuantity", "ip", "isIP", "cidr", "isCIDR", "url",
    "isURL", "semver", "isSemver", "optMap", "optFlatMap", "sum", "min", "max", "isSorted", "find", "findAll",
    "format", "reverse", "existsOne", "transformList", "transformMap", "transformMapEntry", "validate", "getHost",
    "getHostname", "getPort", "getScheme", "getQuery", "getEscapedPath", "isGreaterThan", "isLessThan", "compareTo",
    "asInteger", "named", "asApproximateFloat", "isInteger", "containsIP", "containsCIDR", "intersects", "equivalent",
    "dns1123Label", "dns1123Subdomain",
})  # fmt: skip
"""Functions of a real API server that the sandbox lacks; the error differs from that for an unknown function."""


class NoValue(BerthError):
    """The expression has no value for what it was computed on (`no such key: labels`)."""


@dataclass(frozen=True, slots=True)
class TypeName:
    """The value of `type(x)` and of a type's name."""

    name: str


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing: `oldSelf` under `optionalOldSelf`."""

    present: bool
    content: Any = None


def type_of(value: Any) -> str:
    """CEL's name for the type of a value."""
    if value is None:
        return "null"
    for kind, name in _TYPES:
        if isinstance(value, kind):
            return name
    return "map"


_TYPES = (
    (bool, "bool"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (list, "list"),
    (Duration, "duration"),
    (TypeName, "type"),
    (Optional, "optional_type"),
)


def call(name: str, arguments: list[Any]) -> Any:
    """The value of a function or method (the receiver is the first argument); raises `NoValue`."""
    compute, overloads = METHODS.get(name) or FUNCTIONS[name]
    kinds = [type_of(argument) for argument in arguments]
    if name not in _ANY_TYPE and not any(
        len(wanted) == len(kinds) and all(map(_accepts, wanted, kinds)) for wanted, _ in overloads
    ):
        raise NoValue(f"no such overload: {name}({', '.join(kinds)})")
    return compute(*arguments)


def _accepts(wanted: Type, kind: str) -> bool:
    return wanted.name in (kind, "A", "dyn")


_ANY_TYPE = frozenset({"dyn", "type"})


def _matches(text: str, pattern: str) -> bool:
    try:
        return compiled_pattern(pattern).search(text) is not None
    except BadPattern as error:
        raise NoValue(str(error)) from error


def _find(target: Any, wanted: Any) -> int:
    if isinstance(target, str):
        return target.find(wanted)
    return next((index for index, element in enumerate(target) if equal(element, wanted)), -1)


def _find_last(target: Any, wanted: Any) -> int:
    if isinstance(target, str):
        return target.rfind(wanted)
    return next((index for index in reversed(range(len(target))) if equal(target[index], wanted)), -1)


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


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


def _int(value: Any) -> int:
    try:
        number = int(value)
    except (ValueError, OverflowError) as error:
        raise NoValue(f'strconv.ParseInt: parsing "{value}": invalid syntax') from error
    if not -(2**63) <= number < 2**63:
        raise NoValue("integer overflow")
    return number


def _double(value: Any) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise NoValue(f'strconv.ParseFloat: parsing "{value}": invalid syntax') from error


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
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise NoValue(f'strconv.ParseBool: parsing "{value}": invalid syntax')


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in _LOWER}


Function = tuple[Callable[..., Any], tuple[Overload, ...]]
"""What computes it, and its signatures."""

METHODS: dict[str, Function] = {
    "startsWith": (str.startswith, _TEST),
    "endsWith": (str.endswith, _TEST),
    "contains": (lambda text, part: part in text, _TEST),
    "matches": (_matches, _TEST),
    "size": (len, _SIZES),
    "lowerAscii": (lambda text: text.translate(_LOWER), _CHANGE),
    "upperAscii": (lambda text: text.translate(_UPPER), _CHANGE),
    "trim": (str.strip, _CHANGE),
    "charAt": (_char_at, (((STRING, INT), STRING),)),
    "indexOf": (_find, (((STRING, STRING), INT), ((list_of(ANY), ANY), INT))),
    "lastIndexOf": (_find_last, (((STRING, STRING), INT), ((list_of(ANY), ANY), INT))),
    "replace": (str.replace, (((STRING, STRING, STRING), STRING),)),
    "split": (_split, (((STRING, STRING), _WORDS),)),
    "substring": (_substring, (((STRING, INT), STRING), ((STRING, INT, INT), STRING))),
    "join": (_join, (((_WORDS,), STRING), ((_WORDS, STRING), STRING))),
    "hasValue": (lambda optional: optional.present, (((optional_of(ANY),), BOOL),)),
    "value": (_value, (((optional_of(ANY),), ANY),)),
    "getHours": (_whole(3600 * 10**9), _PARTS),
    "getMinutes": (_whole(60 * 10**9), _PARTS),
    "getSeconds": (_whole(10**9), _PARTS),
    "getMilliseconds": (_whole(10**6), _PARTS),
    "orValue": (
        lambda optional, other: optional.content if optional.present else other,
        (((optional_of(ANY), ANY), ANY),),
    ),
}
FUNCTIONS: dict[str, Function] = {
    "size": (len, _SIZES),
    "matches": (_matches, _TEST),
    "duration": (duration, (((STRING,), DURATION), ((DURATION,), DURATION))),
    "string": (_string, tuple(((kind,), STRING) for kind in (STRING, INT, DOUBLE, BOOL, DURATION))),
    "int": (_int, tuple(((kind,), INT) for kind in (STRING, INT, DOUBLE))),
    "double": (_double, tuple(((kind,), DOUBLE) for kind in (STRING, INT, DOUBLE))),
    "bool": (_truth, tuple(((kind,), BOOL) for kind in (STRING, BOOL))),
    "dyn": (lambda value: value, (((ANY,), DYN),)),
    "type": (lambda value: TypeName(type_of(value)), (((ANY,), TYPE),)),
}


def equal(left: Any, right: Any) -> bool:
    """CEL's equality: numbers by value, bools are no numbers, at any depth."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)
