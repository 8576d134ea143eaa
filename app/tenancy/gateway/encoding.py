"""Answers that are made of messages encoded before: no object is encoded a second time. Pure."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf.message import Message

_DELIMITED = 2
"""The wire type of messages and texts."""


def field_of(message: type[Message], name: str) -> Callable[[bytes], bytes]:
    """Makes the bytes of one entry of that field from the encoding of its message.

    The entries of a repeated field may follow each other; one alone is a whole message.
    """
    tag = _varint(message.DESCRIPTOR.fields_by_name[name].number << 3 | _DELIMITED)
    return lambda encoded: tag + _varint(len(encoded)) + encoded


def passing(serialize: Callable[[Message], bytes]) -> Callable[[Message | bytes], bytes]:
    """The serializer of a method whose answers may be encoded already."""
    return lambda answer: answer if isinstance(answer, bytes) else serialize(answer)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
