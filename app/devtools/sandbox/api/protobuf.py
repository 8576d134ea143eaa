"""Reading of protobuf bodies: kubectl's typed commands (`create configmap`, `auth can-i`) send nothing else.

The decoder knows the fields of `protofields`. A kind or a filled field that is not there is refused with 415, never
dropped in silence. Answers are JSON, which every client reads.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from app.devtools.sandbox.api.failures import bad_request, failure
from app.devtools.sandbox.api.protofields import KINDS, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.wire import JSON

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_DEPTH = 20
_Wire = tuple[int, int, int | bytes]


def decode_protobuf(body: bytes) -> JSON:
    """The object in the API server's envelope; raises StatusError 400 for nonsense, 415 for what is not known here."""
    if not body.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = {number: value for number, _, value in _fields(body[len(_MAGIC) :])}
    types = {number: value for number, _, value in _fields(_bytes(envelope.get(1, b"")))}
    version, kind = _text(types.get(1, b"")), _text(types.get(2, b""))
    message = KINDS.get(kind)
    if message is None:
        raise failure(415, "UnsupportedMediaType", f"the sandbox reads no protobuf of kind {kind!r}: send JSON")
    return {"kind": kind, "apiVersion": version, **_message(_bytes(envelope.get(2, b"")), message, kind, 0)}


def _message(data: bytes, message: Message, path: str, depth: int) -> JSON:
    if depth > _MAX_DEPTH:
        raise bad_request("protobuf: exceeded max depth")
    decoded: JSON = {}
    for number, wire, value in _fields(data):
        field = message.get(number)
        if field is None:
            if value not in (0, b""):
                text = f"the sandbox does not read field {number} of {path} from protobuf: send JSON"
                raise failure(415, "UnsupportedMediaType", text)
            continue
        name, kind = field
        inner = f"{path}.{name}"
        if isinstance(kind, list):
            decoded.setdefault(name, []).append(_value(kind[0], wire, value, inner, depth))
        elif isinstance(kind, dict) and "*" in kind:
            key, item = _entry(_bytes(value), kind["*"], inner, depth)
            decoded.setdefault(name, {})[key] = item
        elif kind != "-":
            read = _value(kind, wire, value, inner, depth)
            if read not in ("", {}, None) and not (read in (0, False) and kind in ("i", "b")):
                decoded[name] = read
    return decoded


def _entry(data: bytes, kind: Any, path: str, depth: int) -> tuple[str, Any]:
    parts = {number: (wire, value) for number, wire, value in _fields(data)}
    wire, value = parts.get(2, (_BYTES, b""))
    return _text(parts.get(1, (_BYTES, b""))[1]), _value(kind, wire, value, path, depth)


def _value(kind: Any, wire: int, value: int | bytes, path: str, depth: int) -> Any:
    if isinstance(kind, dict):
        return _message(_bytes(value), kind, path, depth + 1)
    if kind in ("i", "I", "b", "B"):
        if wire != _VARINT or not isinstance(value, int):
            raise bad_request(f"protobuf: {path} has a wrong wire type")
        if kind in ("b", "B"):
            return bool(value)
        return value - 2**64 if value >= 2**63 else value
    if kind == "s":
        return _text(value)
    if kind == "y":
        return base64.b64encode(_bytes(value)).decode()
    parts = {number: part for number, _, part in _fields(_bytes(value))}
    if kind == "q":
        return _text(parts.get(1, b""))
    return _text(parts.get(3, b"")) if parts.get(1) == 1 else parts.get(2, 0)


def _fields(data: bytes) -> Iterator[_Wire]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise bad_request(f"protobuf: wire type {wire} is not known")
        if position + size > len(data):
            raise bad_request("protobuf: unexpected end of the message")
        yield number, wire, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise bad_request("protobuf: a number does not end")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), position
        shift += 7


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise bad_request("protobuf: a field has a wrong wire type")
    return value


def _text(value: int | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError as error:
        raise bad_request("protobuf: a text is not UTF-8") from error
