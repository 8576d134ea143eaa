"""Evaluation of JMESPath trees within a budget: an expression of a tenant must not stop the controller.

Every visited node is a step, and so is every value (and every 256 characters of text) that a multi-select makes, that
a function takes or makes, that a flattening or a slice copies and that `==` compares: `[@,@]|[@,@]|…` doubles what it
selects at each stage. Fields, indices and projections only pass on what is there. Without steps left, the result is
null. A whole number that is too long to be written is an error that names it: `app.numbers`.
"""

from __future__ import annotations

from typing import Any

from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions
from jmespath.visitor import TreeInterpreter

from app.numbers import NumberError, bounded

STEPS = 1_000
"""Of one evaluation: about a millisecond. A usual workload has less than a hundred values."""
_CHARACTERS = 256
_FUNCTIONS = Functions()


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


def interpret(tree: dict[str, Any], document: Any) -> Any:
    """What the tree finds in the document; None too where it does not fit the data or runs out of steps.

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
