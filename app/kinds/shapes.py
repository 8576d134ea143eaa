"""Decoding of built-in kinds: types are checked, fields that a kind does not have are dropped and named, nulls vanish.

Quantities, times and bytes in base64 are rewritten in their canonical form, as the API server does when it decodes.
The fields of the kinds and how they merge are what the OpenAPI of Kubernetes 1.30 to 1.37 describes: `openapi.json`
is generated (`make generate`) and read once, when it is first needed.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from app.kube.quantity import QuantityError, canonical
from app.pace import step
from app.text import stamp
from app.wire import JSON

Shape = Any
"""The name of a type, `[shape]` for a list, `{"*": shape}` for a map, `*` for anything, or the letter of a scalar.

`s` string, `t` and `u` times in seconds and in microseconds, `y` bytes in base64, `b` bool, `i` and `l` integers of 32
and 64 bits, `q` quantity, `x` integer or string.
"""
_SCALARS: dict[str, tuple[str, str, Any]] = {
    "s": ("string", "a string", ""),
    "t": ("string", "a time", 0),
    "u": ("string", "a time", 0),
    "y": ("[]uint8", "a string", ""),
    "b": ("bool", "true or false", False),
    "i": ("int32", "an integer of 32 bits", 0),
    "l": ("int64", "an integer of 64 bits", 0),
    "x": ("int32", "an integer or a string", 0),
    "q": ("resource.Quantity", "a quantity", "0"),
    "*": ("interface {}", "anything", 0),
}
"""The scalars by their letter: the type in Go, what an author has to write, what null means in a list or a map."""
_BITS = {"i": 31, "l": 63, "x": 31}
_BASE64_LETTER = re.compile(r"[A-Za-z0-9+/]")
_BASE64_GROUPS = re.compile(r"(?:[A-Za-z0-9+/]{4})*")
_BASE64_PADDED = re.compile(r"[A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]=|==)")
_BASE64 = re.compile(rf"{_BASE64_GROUPS.pattern}(?:{_BASE64_PADDED.pattern})?")
_FOUND = {"object": "an object", "array": "a list", "string": "a string", "bool": "a bool", "number": "a number"}
_DIGITS, _ZONE = r"\d\d", ("Z07:00", r"Z|[+-]\d\d:\d\d")
_TO_SECONDS = (
    ("2006", r"\d{4}"), ("-", "-"), ("01", _DIGITS), ("-", "-"), ("02", _DIGITS), ("T", "T"),
    ("15", r"\d\d?"), (":", ":"), ("04", _DIGITS), (":", ":"), ("05", _DIGITS),
)  # fmt: skip
_PARTS = {
    False: (*_TO_SECONDS, ("", r"(?:[.,]\d+)?"), _ZONE),
    True: (*_TO_SECONDS, (".000000", r"[.,]\d{6}"), _ZONE),
}
"""Elements of the layout, and what is read for each; for times of whole seconds, and for those of microseconds."""
_RANGES = {"01": ("month", 1, 12), "15": ("hour", 0, 23), "04": ("minute", 0, 59), "05": ("second", 0, 59)}


class ShapeError(ValueError):
    """A field has a value that it cannot have; the message is the API server's.

    `field` is the path of the field with indices, `fault` says what is wrong there without naming it again.
    """

    def __init__(self, message: str, *, field: str, fault: str) -> None:
        super().__init__(message)
        self.field = field
        self.fault = fault


def decode_builtin(kind: str, version: str, obj: JSON, *, applied: bool = True) -> tuple[JSON, list[str]]:
    """The object as its kind defines it, and the paths of unknown fields; raises ShapeError for a wrong type.

    60.0 is an integer in what is applied, and not in JSON that is created or updated.
    """
    decoder = _Decoder(kind, version, applied=applied)
    decoded = decoder.fields(obj, fields_of(type_of(obj.get("apiVersion"), kind)), "", kind)
    decoded.setdefault("metadata", {})
    return decoded, list(decoder.unknown)


def decode_fields(kind: str, obj: JSON) -> JSON:
    """An object of any type of the tables without the fields that are not known. Raises ShapeError for a wrong type."""
    return _Decoder(kind, "v1").fields(obj, fields_of(kind), "", kind)


def read_fields(kind: str, obj: JSON) -> tuple[Mapping[str, Collection[str]], ShapeError | None]:
    """What an author of an object of a type got wrong: the paths of unknown fields, and the first wrong type.

    Each path has the fields that are known there. `kind` may be any type of the tables.
    """
    decoder = _Decoder(kind, "v1")
    try:
        decoder.fields(obj, fields_of(kind), "", kind)
    except ShapeError as error:
        return decoder.unknown, error
    return decoder.unknown, None


def decode_metadata(kind: str, version: str, metadata: Any) -> tuple[JSON, list[str]]:
    """The metadata of a custom resource; the same promise as `decode_builtin`."""
    decoder = _Decoder(kind, version)
    return decoder.value(metadata, "ObjectMeta", "metadata", "") or {}, list(decoder.unknown)


class Tables(msgspec.Struct, frozen=True):
    """`types`: the shapes of the fields of each type; a kind is a type.

    `merge`: how fields merge, where they do not merge as their shape says (a map by its fields, a list not at all):
    the keys of a list's elements (none for a set), or null for a value that server-side apply takes whole; the key in
    a strategic merge patch ("" for scalars), or null for a list that is replaced; whether elements are taken whole.
    """

    types: dict[str, dict[str, Shape]]
    merge: dict[str, dict[str, tuple[tuple[str, ...] | None, str | None, bool]]]


@cache
def tables() -> Tables:
    return msgspec.json.decode(resources.files("app.kinds").joinpath("openapi.json").read_bytes(), type=Tables)


def is_built_in(group: str) -> bool:
    """Whether all kinds of the API group are Kubernetes' own: it has no domain, or one below `k8s.io`."""
    return "." not in group or group.endswith(".k8s.io")


def fields_of(name: str) -> dict[str, Shape]:
    """The fields of a type, in the form of a shape: of a type that is not in the tables, a map of anything."""
    return tables().types.get(name, {"*": "*"})


def type_of(api_version: object, kind: str) -> str:
    """The name of the type of a kind in the tables: the kind, but where others have kinds of this name too."""
    group, slash, version = str(api_version or "").rpartition("/")
    if not slash:
        return kind
    qualified = f"{group.partition('.')[0]}.{version}.{kind}"
    return qualified if qualified in tables().types else kind


class _Decoder:
    """One object that is decoded. A `holder` is the type that has the field, which messages name."""

    def __init__(self, kind: str, version: str, *, applied: bool = True) -> None:
        self._applied = applied
        self.unknown: dict[str, Collection[str]] = {}
        self._prefix = f'{kind} in version "{version}" cannot be handled as a {kind}: '

    def value(self, value: Any, shape: Shape, path: str, holder: str) -> Any:
        if value is None or shape == "*":
            return value
        if isinstance(shape, list):
            if not isinstance(value, list):
                raise self._wrong_type(value, shape, path, holder)
            step(1 + len(value))
            return [
                _zero(shape[0]) if item is None else self.value(item, shape[0], f"{path}[{index}]", holder)
                for index, item in enumerate(value)
            ]
        if not _has_fields(shape):
            return self._scalar(value, shape, path, holder)
        fields = shape if isinstance(shape, dict) else fields_of(shape)
        if not isinstance(value, dict):
            raise self._wrong_type(value, shape, path, holder)
        return self.fields(value, fields, path, holder if fields is shape else shape)

    def fields(self, value: JSON, fields: dict[str, Shape], path: str, holder: str) -> JSON:
        decoded: JSON = {}
        step(1 + len(value))
        rest = fields.get("*")
        for name, item in value.items():
            shape = fields.get(name, rest)
            inner = f"{path}.{name}" if path else name
            if shape is None:
                self.unknown[inner] = fields.keys()
            elif item is not None and rest is None:
                decoded[name] = self.value(item, shape, inner, holder)
            elif item is not None:
                decoded[name] = self._entry(name, item, shape, path, holder)
            elif rest is not None:
                decoded[name] = None if shape == "*" else _zero(shape)
        return decoded

    def _entry(self, name: str, value: Any, shape: Shape, path: str, holder: str) -> Any:
        """An entry of a map: the message names the map alone, as the server's does."""
        try:
            return self.value(value, shape, path, holder)
        except ShapeError as error:
            error.field = f"{path}[{name}]{error.field.removeprefix(path)}"
            raise

    def _scalar(self, value: Any, shape: str, path: str, holder: str) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        whole = number and (isinstance(value, int) or (self._applied and value.is_integer()))
        if isinstance(value, str) and shape in "sx":
            return value
        if isinstance(value, str) and shape in "tu":
            try:
                return _canonical_time(value, micro=shape == "u")
            except ValueError as error:
                fault = f"want a time such as 2006-01-02T15:04:05Z, got {value!r}"
                raise ShapeError(f"{self._prefix}{error}", field=path, fault=fault) from error
        if shape == "y" and isinstance(value, str):
            return self._encoded_bytes(value, path)
        if shape == "b" and isinstance(value, bool):
            return value
        if shape in _BITS and whole and -(2 ** _BITS[shape]) <= value < 2 ** _BITS[shape]:
            return int(value)
        if shape == "q":
            try:
                return canonical(value if isinstance(value, str) or number else "")
            except QuantityError as error:
                raise ShapeError(f"{self._prefix}{error.fault}", field=path, fault=error.fault) from error
        raise self._wrong_type(value, shape, path, holder)

    def _encoded_bytes(self, text: str, path: str) -> str:
        """Base64 as the server writes it again: without line breaks, and without bits that say nothing."""
        plain = text.replace("\n", "").replace("\r", "")
        if _BASE64.fullmatch(plain):
            return base64.b64encode(base64.b64decode(plain)).decode()
        fault = f"illegal base64 data at input byte {_first_fault(plain)}"
        raise ShapeError(f"{self._prefix}{fault}", field=path, fault=fault)

    def _wrong_type(self, value: Any, shape: Shape, path: str, holder: str) -> ShapeError:
        """The wording of the server's decoder: the type that has the field, and the path without indices."""
        name = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")
        shown = f"number {value}" if name == "number" and shape in ("i", "l") else name
        place = re.sub(r"\[\d+\]", "", f"{holder}.{path}").removeprefix(".")
        message = f"{self._prefix}json: cannot unmarshal {shown} into Go struct field {place} of type {_go_type(shape)}"
        kind = "a list" if isinstance(shape, list) else "an object" if _has_fields(shape) else _SCALARS[shape][1]
        return ShapeError(message, field=path, fault=f"want {kind}, got {_FOUND[name]}")


def _has_fields(shape: Shape) -> bool:
    return isinstance(shape, dict) or shape not in _SCALARS


def _go_type(shape: Shape) -> str:
    if isinstance(shape, list):
        return f"[]{_go_type(shape[0])}"
    if isinstance(shape, dict):
        return "v1.ResourceList" if shape["*"] == "q" else f"map[string]{_go_type(shape['*'])}"
    return _SCALARS[shape][0] if shape in _SCALARS else f"v1.{shape}"


def _first_fault(text: str) -> int:
    """Where the server's decoder gives up: at the wrong letter, or at a group that is cut short."""
    groups = _BASE64_GROUPS.match(text)
    at = groups.end() if groups else 0
    if _BASE64_PADDED.match(text, at):
        return at + 4
    rest = text[at : at + 4]
    wrong = next((index for index, letter in enumerate(rest) if not _BASE64_LETTER.match(letter)), 0)
    second_sign_missing = rest[wrong:] == "=" and wrong == 2
    return at + wrong + second_sign_missing


def _zero(shape: Shape) -> Any:
    if isinstance(shape, list):
        return []
    return {} if _has_fields(shape) else _SCALARS[shape][2]


def _canonical_time(text: str, *, micro: bool) -> str:
    """The time in UTC, in whole seconds or in microseconds. Raises ValueError with the server's message."""
    rest, read = text, {}
    for element, pattern in _PARTS[micro]:
        match = re.match(pattern, rest)
        if match is None:
            layout = f"2006-01-02T15:04:05{'.000000' if micro else ''}Z07:00"
            raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{element}"')
        read[element], rest = match[0], rest[match.end() :]
        name, low, high = _RANGES.get(element, ("", 0, 0))
        if name and not low <= int(match[0]) <= high:
            raise ValueError(f'parsing time "{text}": {name} out of range')
    if rest:
        raise ValueError(f'parsing time "{text}": extra text: "{rest}"')
    hours, minutes = (0, 0) if read["Z07:00"] == "Z" else map(int, read["Z07:00"][1:].split(":"))
    for name, value, high in (("hour", hours, 24), ("minute", minutes, 60)):
        if value > high:
            raise ValueError(f'parsing time "{text}": time zone offset {name} out of range')
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if read["Z07:00"].startswith("-") else 1)
    year, month, day, hour, minute, second = (int(read[part]) for part in ("2006", "01", "02", "15", "04", "05"))
    fraction = int(read[".000000"][1:]) if micro else 0
    try:
        moment = datetime(year, month, day, hour, minute, second, fraction, UTC) - offset
    except (ValueError, OverflowError):
        raise ValueError(f'parsing time "{text}": day out of range') from None
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}" if micro else stamp(moment)
