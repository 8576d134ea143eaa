"""Keys of rules: JMESPath expressions over the document of a workload, compiled once.

A key that only walks down maps (`state.extra.labels."app.kubernetes.io/name"`, `@`) takes a short way with the same
result; everything else is interpreted within a budget (`key_budget`). Keys come from tenants: whatever the text,
compiling answers with a Key or a ValueError, and evaluating never raises and never runs long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from app.workloads.rules.key_budget import interpret
from app.workloads.rules.key_syntax import parse, plain_path


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
    tree = parse(text)
    path = plain_path(tree)
    return Key(text, path, tree if path is None else None)
