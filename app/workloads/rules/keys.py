"""Keys of rules: JMESPath expressions over the document of a workload, what they find there, and whether a rule holds.

A key that only walks down maps (`state.extra.labels."app.kubernetes.io/name"`, `@`) takes a short way with the same
result; everything else is interpreted within a budget (`key_budget`). Keys come from tenants: whatever the text,
compiling answers with a Key or a ValueError, and evaluating never raises and never runs long.

Numbers are written as JSON writes them; one without a fraction has no decimal point, whatever form it traveled in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from app.wire import decode_json, encode_sorted
from app.workloads.model import Expression, Term
from app.workloads.rules.key_budget import interpret
from app.workloads.rules.key_syntax import parse, plain_names, plain_path

Found = str | bool | None
"""Under a key: the text to compare, None where there is nothing, False where there is something without a text."""

_UNREAD = object()
_EXACT = 2**53
"""Above this a float cannot represent every integer; it keeps its own form."""


@dataclass(frozen=True, slots=True)
class Key:
    """A compiled key; `path` are the names it walks down, None for an expression that computes."""

    text: str
    path: tuple[str, ...] | None
    _tree: dict[str, Any] | None = field(repr=False, compare=False)

    def evaluate(self, document: Any) -> Any:
        """What the key finds in a decoded document, None where there is nothing.

        An expression that does not fit the data (a function on a value of another type) or that needs more steps than
        the budget allows finds nothing.
        """
        if self.path is None:
            return None if self._tree is None else interpret(self._tree, document)
        value = document
        for name in self.path:
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value


@lru_cache(maxsize=16_384)
def compile_key(text: str) -> Key:
    """Raises ValueError, whose message shows the key and says where and why it cannot be used."""
    names = plain_names(text)
    if names is not None:
        return Key(text, names, None)
    tree = parse(text)
    path = plain_path(tree)
    return Key(text, path, tree if path is None else None)


class Facts:
    """The values of one document under keys; it is read, and each key evaluated once, when first asked for."""

    __slots__ = ("_document", "_found", "_texts", "source")

    def __init__(self, document: bytes) -> None:
        self.source = document
        self._document: Any = _UNREAD
        self._found: dict[str, Found] = {}
        self._texts: dict[str, str | None] = {}

    def find(self, key: str) -> Found:
        """Raises ValueError for a key that is none."""
        try:
            return self._found[key]
        except KeyError:
            value = self._value(key)
            text = comparable(value)
            found: Found = False if text is None and value is not None else text
            self._found[key] = found
            return found

    def text(self, key: str) -> str | None:
        """What stands at the key, as an annotation; None for no annotation."""
        if key not in self._texts:
            self._texts[key] = rendered(self._value(key))
        return self._texts[key]

    def _value(self, key: str) -> Any:
        if self._document is _UNREAD:
            self._document = decode_json(self.source)
        return compile_key(key).evaluate(self._document)


def holds(terms: Iterable[Term], facts: Facts) -> bool:
    """Whether one of the terms holds; a term without expressions does not."""
    return any(term and all(met(found, facts) for found in term) for term in terms)


def met(expression: Expression, facts: Facts) -> bool:
    """Whether one expression holds."""
    found = facts.find(expression.key)
    if expression.operator == "In":
        return found in expression.values
    if expression.operator == "NotIn":
        return found not in expression.values
    return (found is not None) == (expression.operator == "Exists")


def comparable(value: Any) -> str | None:
    """The text that `In` and `NotIn` compare; None where there is nothing to compare: null, a map or a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    if value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return encode_sorted(value).decode()


def rendered(value: Any) -> str | None:
    """The text of an annotation, or None where there must be none.

    A string stays as it is; everything else is compact JSON with sorted keys and without escapes for characters that
    need none. The same value always gives the same text.
    """
    return encode_sorted(value).decode() if isinstance(value, dict | list) else comparable(value)
