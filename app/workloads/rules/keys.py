"""Keys of rules: JMESPath expressions over the document of a workload, what they find there, and whether a rule holds.

A key that only walks down maps (`state.extra.labels."app.kubernetes.io/name"`, `@`) takes a short way with the same
result; everything else is interpreted within a budget. Keys come from tenants: whatever the text, compiling answers
with a Key or a ValueError, and evaluating never runs long. What it raises is a fault of that key, which holds for no
workload then: `Facts` keeps it, for the status of the rule.

Numbers are written as JSON writes them; one without a fraction has no decimal point, whatever form it traveled in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions
from jmespath.visitor import TreeInterpreter

from app.numbers import NumberError, bounded, written
from app.text import quoted
from app.wire import decode_json, encode_sorted
from app.workloads.model import Expression, Term
from app.workloads.rules.key_syntax import parse, plain_names, plain_path

STEPS = 1_000
"""Of one evaluation: about a millisecond. A usual workload has less than a hundred values."""
_CHARACTERS = 256
_FUNCTIONS = Functions()
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
            return None if self._tree is None else _interpret(self._tree, document)
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

    __slots__ = ("_document", "_found", "_texts", "faults", "source")

    def __init__(self, document: bytes) -> None:
        self.source = document
        self._document: Any = _UNREAD
        self._found: dict[str, Found] = {}
        self._texts: dict[str, str | None] = {}
        self.faults: dict[str, str] = {}
        """Keys that could not be evaluated, each with the reason."""

    def find(self, key: str) -> Found:
        """None for a key that cannot be evaluated: then it is in `faults`. Raises ValueError for a key that is none."""
        try:
            return self._found[key]
        except KeyError:
            compiled, fact = compile_key(key), None
            try:
                value = self._value(compiled)
                text = comparable(value)
                fact = False if text is None and value is not None else text
            except Exception as error:  # noqa: BLE001  the wall: a key is a tenant's, and other rules have to be evaluated
                self._fault(key, error)
            self._found[key] = fact
            return fact

    def text(self, key: str) -> str | None:
        """What stands at the key, as an annotation; None for no annotation, and for a key that is in `faults` then."""
        if key not in self._texts:
            compiled = compile_key(key)
            self._texts[key] = None
            try:
                self._texts[key] = rendered(self._value(compiled))
            except Exception as error:  # noqa: BLE001  the wall, as above
                self._fault(key, error)
        return self._texts[key]

    def fault_of(self, keys: Iterable[str]) -> str:
        """Which of these keys could not be evaluated, and why; "" where all that were looked at could."""
        if not self.faults:
            return ""
        return next((f"key {quoted(key)}: {self.faults[key]}" for key in keys if key in self.faults), "")

    def _value(self, key: Key) -> Any:
        if self._document is _UNREAD:
            self._document = decode_json(self.source)
        return key.evaluate(self._document)

    def _fault(self, key: str, error: Exception) -> None:
        reason = str(error) if isinstance(error, NumberError) else f"cannot be evaluated ({type(error).__name__})"
        self.faults[key] = reason


def holds(terms: Iterable[Term], facts: Facts) -> bool:
    """Whether one of the terms holds; a term without expressions does not."""
    return any(term and all(met(expression, facts) for expression in term) for term in terms)


def met(expression: Expression, facts: Facts) -> bool:
    """Whether one expression holds."""
    fact = facts.find(expression.key)
    if expression.key in facts.faults:
        return False
    if expression.operator == "In":
        return fact in expression.values
    if expression.operator == "NotIn":
        return fact not in expression.values
    return (fact is not None) == (expression.operator == "Exists")


def comparable(value: Any) -> str | None:
    """The text that `In` and `NotIn` compare; None where there is nothing to compare: null, a map or a list.

    Raises NumberError.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return written(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    if value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return encode_sorted(value).decode()


def rendered(value: Any) -> str | None:
    """The text of an annotation, or None where there must be none.

    A string stays as it is; everything else is compact JSON with sorted keys and without escapes for characters that
    need none. The same value always gives the same text. Raises NumberError.
    """
    if isinstance(value, dict | list):
        _check_numbers(value)
    return encode_sorted(value).decode() if isinstance(value, dict | list) else comparable(value)


def _check_numbers(value: Any) -> None:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, int):
            bounded(item)
        elif isinstance(item, dict | list):
            waiting += item.values() if isinstance(item, dict) else item


class _OverBudgetError(Exception):
    """The evaluation has used up its steps."""


class _Interpreter(TreeInterpreter):
    """The library's interpreter, counting."""

    def __init__(self) -> None:
        super().__init__()
        self._left = STEPS

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        self._spend(1)
        return super().visit(node, *args, **kwargs)

    def visit_multi_select_list(self, node: Any, value: Any) -> Any:
        return self._charged(super().visit_multi_select_list(node, value))

    def visit_multi_select_dict(self, node: Any, value: Any) -> Any:
        return self._charged(super().visit_multi_select_dict(node, value))

    def visit_function_expression(self, node: Any, value: Any) -> Any:
        arguments = [self._charged(self.visit(child, value)) for child in node["children"]]
        return self._charged(_FUNCTIONS.call_function(node["value"], arguments))

    def visit_comparator(self, node: Any, value: Any) -> Any:
        # The left side alone: what is equal has the same size, and what is not is found out no later.
        if node["value"] not in ("eq", "ne"):
            return super().visit_comparator(node, value)
        left, right = (self.visit(child, value) for child in node["children"])
        return self.COMPARATOR_FUNC[node["value"]](self._charged(left), right)

    def visit_flatten(self, node: Any, value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if not isinstance(base, list):
            return None
        self._spend(len(base))
        merged: list[Any] = []
        for item in base:
            if isinstance(item, list):
                self._spend(len(item))
                merged += item
            else:
                merged.append(item)
        return merged

    def visit_slice(self, node: Any, value: Any) -> Any:
        if isinstance(value, list):
            self._spend(len(value))
        return super().visit_slice(node, value)

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _OverBudgetError

    def _charged(self, value: Any) -> Any:
        """Spend what the value weighs if it is written out; parts that it holds twice count twice."""
        waiting = [value]
        while waiting:
            item = waiting.pop()
            self._spend(1)
            if isinstance(item, str):
                self._spend(len(item) // _CHARACTERS)
            elif isinstance(item, int):
                bounded(item)
            elif isinstance(item, list):
                self._spend(len(item))
                waiting += item
            elif isinstance(item, dict):
                self._spend(sum(1 + len(name) // _CHARACTERS for name in item))
                waiting += item.values()
        return value


def _interpret(tree: dict[str, Any], document: Any) -> Any:
    """What the tree finds in the document; None too where it does not fit the data or runs out of steps.

    Every visited node is a step, and so is every value (and every 256 characters of text) that a multi-select makes,
    that a function takes or makes, that a flattening or a slice copies and that `==` compares: `[@,@]|[@,@]|…` doubles
    what it selects at each stage. Fields, indices and projections only pass on what is there. A whole number that is
    too long to be written is an error that names it: `app.numbers`.

    The caller has to limit the depth of the document. Raises NumberError.
    """
    try:
        return _Interpreter().visit(tree, document)
    except (_OverBudgetError, JMESPathError):
        return None
    except NumberError:
        raise
    except (TypeError, ValueError, OverflowError):
        return None  # a function of the library on a value that its own checks let pass: contains('1', `1`)
