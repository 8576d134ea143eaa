"""Writes maps in CEL, in several expressions, as long as one may be. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from app.cel.literals import literal

EXPRESSION_LIMIT = 100_000
"""Code points of one expression (cel-go parser.go, expressionSizeCodePointLimit; API servers set no other)."""
SHARD = 90_000
"""Code points of one map. The rest is room for versions that count more."""


class Maps(NamedTuple):
    """A map with strings as keys, in several variables. A map of constants is made once, when a policy is compiled."""

    name: str
    texts: tuple[str, ...]

    @property
    def variables(self) -> list[dict[str, str]]:
        return [{"name": f"{self.name}{index}", "expression": text} for index, text in enumerate(self.texts)]

    def has(self, key: str) -> str:
        """The condition that the map has this key, an expression."""
        return " || ".join(f"{key} in variables.{self.name}{index}" for index in range(len(self.texts))) or "false"

    def value(self, key: str, otherwise: str) -> str:
        """The value of the key, an expression, and `otherwise` where the map lacks it."""
        text = otherwise
        for index in reversed(range(len(self.texts))):
            variable = f"variables.{self.name}{index}"
            text = f"({key} in {variable} ? {variable}[{key}] : {text})"
        return text


def maps(name: str, entries: Sequence[tuple[str, str]]) -> Maps:
    """A map of these keys to these values, which are expressions already."""
    return Maps(name, tuple(_shards([f"{literal(key)}: {value}" for key, value in entries])))


def _shards(entries: Iterable[str]) -> Iterator[str]:
    shard: list[str] = []
    size = 0
    for entry in entries:
        if shard and size + len(entry) > SHARD:
            yield f"{{{', '.join(shard)}}}"
            shard, size = [], 0
        shard.append(entry)
        size += len(entry) + 2
    if shard:
        yield f"{{{', '.join(shard)}}}"
