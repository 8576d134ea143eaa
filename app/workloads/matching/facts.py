"""Evaluates a rule's keys for one workload, and whether the rule holds. Keeps no state across workloads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.wire import decode_json
from app.workloads.model import Expression, Term
from app.workloads.rules.keys import Key, compile_key
from app.workloads.rules.values import comparable, rendered

Found = str | bool | None
"""Under a key: the text to compare, None where there is nothing, False where there is something without a text."""

_UNREAD = object()


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
            value = self._value(compile_key(key))
            text = comparable(value)
            found: Found = False if text is None and value is not None else text
            self._found[key] = found
            return found

    def text(self, key: Key) -> str | None:
        """What stands at the key, as an annotation; None for no annotation."""
        if key.text not in self._texts:
            self._texts[key.text] = rendered(self._value(key))
        return self._texts[key.text]

    def _value(self, key: Key) -> Any:
        if self._document is _UNREAD:
            self._document = decode_json(self.source)
        return key.evaluate(self._document)


def holds(terms: Iterable[Term], facts: Facts) -> bool:
    """Whether one of the terms holds; a term without expressions does not."""
    return any(term.expressions and all(_true(found, facts) for found in term.expressions) for term in terms)


def _true(expression: Expression, facts: Facts) -> bool:
    found = facts.find(expression.key)
    if expression.operator == "In":
        return found in expression.values
    if expression.operator == "NotIn":
        return found not in expression.values
    return (found is not None) == (expression.operator == "Exists")
