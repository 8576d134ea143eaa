"""Writes texts as CEL: literals that no text breaks out of. Pure."""

from __future__ import annotations

from collections.abc import Iterable

_PLAIN = frozenset(map(chr, range(0x20, 0x7F))) - set("'\\")


def literal(text: str) -> str:
    """The text as a CEL string. Quotes, backslashes and all that is not printable ASCII are escaped."""
    return f"'{''.join(character if character in _PLAIN else _escaped(character) for character in text)}'"


def _escaped(character: str) -> str:
    """Raises ValueError for a surrogate, which no CEL string can have."""
    point = ord(character)
    if 0xD800 <= point < 0xE000:
        raise ValueError(f"U+{point:04X} is no character")
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def listed(texts: Iterable[str]) -> str:
    """A list of strings."""
    return f"[{', '.join(map(literal, texts))}]"
