"""Decoding of built-in kinds: types are checked, fields that a kind does not have are dropped and named, nulls vanish.

A shape is a small value: a type letter, `[shape]` for a list, `{"*": shape}` for a map, a dictionary of fields for an
object; the shapes are in `podshapes` and `kindshapes`. Quantities (`q`) and bytes in base64 (`y`) are rewritten in
their canonical form, as the API server does when it decodes.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from app.kinds.kindshapes import KINDS, OBJECT_META
from app.kinds.quantities import QuantityError, canonical
from app.wire import JSON

_GO_TYPES = {
    "s": "string",
    "y": "[]uint8",
    "i": "int64",
    "b": "bool",
    "q": "resource.Quantity",
    "x": "intstr.IntOrString",
}
_STRUCTS = {
    "metadata": "ObjectMeta",
    "spec": "PodSpec",
    "containers": "Container",
    "initContainers": "Container",
    "env": "EnvVar",
    "ports": "ContainerPort",
    "volumeMounts": "VolumeMount",
    "volumes": "Volume",
    "nodeSelector": "PodSpec",
    "labels": "ObjectMeta",
    "annotations": "ObjectMeta",
}
_BASE64_LETTER = re.compile(r"[A-Za-z0-9+/]")
_BASE64_GROUP = re.compile(r"[A-Za-z0-9+/]{4}")
_BASE64_PADDED = re.compile(r"[A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]=|==)")
_BASE64 = re.compile(rf"(?:{_BASE64_GROUP.pattern})*(?:{_BASE64_PADDED.pattern})?")
_TOP: dict[str, Any] = {"apiVersion": "s", "kind": "s"}


_FOUND = {"object": "an object", "array": "a list", "string": "a string", "bool": "a bool", "number": "a number"}
_WANTED = {"s": "a string", "i": "an integer", "b": "true or false", "x": "an integer or a string", "q": "a quantity"}


class ShapeError(ValueError):
    """A field has a value that it cannot have; the message is the API server's.

    `field` is the path of the field with indices, `fault` says what is wrong there without naming it again.
    """

    def __init__(self, message: str, *, field: str, fault: str) -> None:
        super().__init__(message)
        self.field = field
        self.fault = fault


def decode_builtin(kind: str, version: str, obj: JSON) -> tuple[JSON, list[str]]:
    """The object as its kind defines it, and the paths of unknown fields; raises ShapeError for a wrong type."""
    unknown: list[str] = []
    prefix = f'{kind} in version "{version}" cannot be handled as a {kind}: '
    decoded = _decode(obj, {**_TOP, "metadata": OBJECT_META, **KINDS.get(kind, {"*": "*"})}, "", unknown, prefix)
    decoded.setdefault("metadata", {})
    return decoded, unknown


def decode_metadata(kind: str, version: str, metadata: Any) -> tuple[JSON, list[str]]:
    """The metadata of a custom resource; the same promise as `decode_builtin`."""
    unknown: list[str] = []
    prefix = f'{kind} in version "{version}" cannot be handled as a {kind}: '
    decoded = _decode(metadata, OBJECT_META, "metadata", unknown, prefix)
    return decoded or {}, unknown


def _decode(value: Any, shape: Any, path: str, unknown: list[str], prefix: str) -> Any:
    if value is None or shape == "*":
        return value
    if isinstance(shape, str):
        return _scalar(value, shape, path, prefix)
    if isinstance(shape, list):
        if not isinstance(value, list):
            struct = _STRUCTS.get(path.rpartition(".")[2], "")
            raise _wrong_type(value, f"[]v1.{struct}" if struct else "[]string", path, prefix, "a list")
        return [
            _zero(shape[0]) if item is None else _decode(item, shape[0], f"{path}[{index}]", unknown, prefix)
            for index, item in enumerate(value)
        ]
    return _object(value, shape, path, unknown, prefix)


def _object(value: Any, shape: dict[str, Any], path: str, unknown: list[str], prefix: str) -> JSON:
    if not isinstance(value, dict):
        raise _wrong_type(value, "object", path, prefix, "an object")
    decoded: JSON = {}
    rest = shape.get("*")
    for name, item in value.items():
        field = shape.get(name, rest)
        inner = f"{path}.{name}" if path else name
        if field is None:
            unknown.append(inner)
        elif item is not None:
            # An entry of a map is reported under the map, as the server does.
            entry = path if field is rest and isinstance(rest, str) else inner
            decoded[name] = _decode(item, field, entry, unknown, prefix)
        elif rest is not None:
            decoded[name] = None if field == "*" else _zero(field)
    return decoded


def _scalar(value: Any, shape: str, path: str, prefix: str) -> Any:
    match shape:
        case "s" if isinstance(value, str):
            return value
        case "y" if isinstance(value, str):
            return _encoded_bytes(value, path, prefix)
        case "b" if isinstance(value, bool):
            return value
        case "i" if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
            return value
        case "i" if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
            return int(value)
        case "x" if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        case "q" if isinstance(value, str | int | float) and not isinstance(value, bool):
            try:
                return canonical(str(value))
            except QuantityError as error:
                raise ShapeError(f"{prefix}{error}", field=path, fault=str(error)) from error
    raise _wrong_type(value, _GO_TYPES[shape], path, prefix, _WANTED.get(shape, "a string"))


def _encoded_bytes(text: str, path: str, prefix: str) -> str:
    """Base64 as the server writes it again: without line breaks, and without bits that say nothing."""
    plain = text.replace("\n", "").replace("\r", "")
    whole = _BASE64.fullmatch(plain)
    if whole is not None:
        return base64.b64encode(base64.b64decode(plain)).decode()
    fault = f"illegal base64 data at input byte {_first_fault(plain)}"
    raise ShapeError(f"{prefix}{fault}", field=path, fault=fault)


def _first_fault(text: str) -> int:
    """Where the server's decoder gives up: at the wrong letter, or at a group that is cut short."""
    at = 0
    while _BASE64_GROUP.match(text, at):
        at += 4
    if _BASE64_PADDED.match(text, at):
        return at + 4
    rest = text[at : at + 4]
    wrong = next((index for index, letter in enumerate(rest) if not _BASE64_LETTER.match(letter)), 0)
    second_sign_missing = rest[wrong:] == "=" and wrong == 2
    return at + wrong + second_sign_missing


def _zero(shape: Any) -> Any:
    if isinstance(shape, list):
        return []
    if isinstance(shape, dict):
        return {}
    return {"s": "", "y": "", "i": 0, "b": False, "q": "0", "x": 0}.get(shape)


def _wrong_type(value: Any, expected: str, path: str, prefix: str, wanted: str) -> Exception:
    """The wording of the server's decoder: the struct that holds the field, and the path without indices."""
    found = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    plain = re.sub(r"\[\d+\]", "", path)
    parents = plain.split(".")[:-1]
    struct = _STRUCTS.get(parents[-1], parents[-1].title()) if parents else ""
    place = f"{struct}.{plain}".removeprefix(".")
    message = f"{prefix}json: cannot unmarshal {found} into Go struct field {place} of type {expected}"
    return ShapeError(message, field=path, fault=f"want {wanted}, got {_FOUND[found]}")
