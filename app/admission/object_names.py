"""What the object of a review is called: its name, or the beginning of the one that the API server has yet to make."""

from __future__ import annotations

import msgspec

from app.admission.review import Request


class _Metadata(msgspec.Struct, rename="camel"):
    generate_name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode_named = msgspec.json.Decoder(_Named).decode


def object_name(request: Request) -> tuple[str, str]:
    """(name, generateName); the second only where there is no name yet. Whatever the object is, there is an answer."""
    if request.name:
        return request.name, ""
    try:
        return "", _decode_named(request.object).metadata.generate_name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", ""
