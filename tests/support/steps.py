"""What code costs in counted steps: a number that neither the machine nor its load changes.

Modules of some packages are rewritten while they are imported, so that each of these adds to `steps`: a call, a turn of
a loop, and what a function or operator in C does for each item, character or bit that it looks at. `setprofile`, with
which `tests.support.costs` counts, sees no operator: `name in names[:index]` costs it nothing.

It takes a process of its own, in which `count_steps` comes before the first import of the packages.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import math
import sys
import types
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

PER_STEP = 16
"""Characters, bytes or bits that C goes through in the time of one step. Measured on reviews of each kind."""
ITEMS_PER_STEP = 4
SCANNED_PER_STEP = 1024
"""Bytes that a search for other bytes goes through in that time."""
FOREIGN = 10
"""Steps for a call of a Python function that is not counted itself."""
_TEXTS = (str, bytes, bytearray, memoryview)
_LISTS = (list, tuple, deque)
_SIZED = (list, tuple, set, frozenset, dict, deque, type({}.keys()), type({}.values()), type({}.items()))
_VALUES = (tuple, frozenset, str, bytes, int)
_CONSTANT = frozenset(
    [
        "len",
        "isinstance",
        "issubclass",
        "type",
        "id",
        "getattr",
        "hasattr",
        "setattr",
        "iter",
        "next",
        "callable",
        "append",
        "appendleft",
        "add",
        "get",
        "setdefault",
        "discard",
        "pop",
        "popitem",
        "popleft",
        "keys",
        "values",
        "items",
        "bool",
    ]
)
"""Functions whose cost does not depend on how large their arguments are."""
_OWN = frozenset(
    [
        "sort",
        "index",
        "count",
        "remove",
        "insert",
        "copy",
        "reverse",
        "split",
        "rsplit",
        "splitlines",
        "strip",
        "lstrip",
        "rstrip",
        "replace",
        "find",
        "rfind",
        "encode",
        "decode",
        "translate",
        "lower",
        "upper",
        "casefold",
        "isdigit",
        "isascii",
        "isalnum",
        "isalpha",
        "isdecimal",
        "rpartition",
        "partition",
        "title",
        "union",
        "intersection",
        "difference",
        "symmetric_difference",
        "isdisjoint",
        "issubset",
        "hex",
        "format",
        "format_map",
    ]
)
"""Methods that go through their own object."""
_SCANS = frozenset({"count", "find", "rfind"})
_FRAMES = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec"})
"""Functions that look at the frame of their caller."""
_FUNCTIONS = (types.FunctionType, types.MethodType)
_counted: list[str] = []
_total = [0]


def steps() -> int:
    """All that were counted in this process."""
    return _total[0]


def count_steps(*packages: str) -> None:
    """Have the modules of these packages counted from now on. None of them may have been imported."""
    early = sorted(name for name in sys.modules if name.split(".")[0] in packages)
    if early:
        raise RuntimeError(f"imported before they could be counted: {', '.join(early)}")
    _counted.extend(packages)
    sys.meta_path.insert(0, _Finder())


def counting(source: str, filename: str = "<counted>") -> types.CodeType:
    """The code of a module that counts its steps; it runs with `helpers` among its globals."""
    return compile(ast.fix_missing_locations(_Counter().visit(ast.parse(source))), filename, "exec")  # type: ignore[no-any-return]


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if fullname.split(".", maxsplit=1)[0] not in _counted:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def path_stats(self, path: Any) -> Any:
        raise OSError(path)  # no compiled file is read or written

    def source_to_code(self, data: Any, path: Any, **_: Any) -> types.CodeType:
        return counting(bytes(data).decode(), str(path))

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__.update(helpers)
        super().exec_module(module)


def size_of(value: Any) -> int:
    """The steps that it takes to go through a value once."""
    kind = type(value)
    if kind in _SIZED:
        return len(value) // ITEMS_PER_STEP
    if kind is int:
        return 0 if -(2**63) < value < 2**63 else int(value.bit_length()) // PER_STEP
    if isinstance(value, _TEXTS) or kind.__name__ == "Raw":
        return len(value) // PER_STEP
    return 0


def _deep(value: Any) -> int:
    """The same with all that is inside."""
    total, rest = 0, [value]
    while rest:
        inner = rest.pop()
        total += 1 + size_of(inner)
        if isinstance(inner, dict):
            rest += inner.values()
        elif isinstance(inner, (list, tuple)):
            rest += inner
    return total


def _one() -> None:
    _total[0] += 1


def _sized(value: Any) -> Any:
    """A value that an operator or a display has made."""
    _total[0] += 1 + size_of(value)
    return value


def _each(values: Any) -> Any:
    """What a comprehension goes through. A generator counts itself."""
    if type(values) in _SIZED or isinstance(values, str):
        _total[0] += len(values)
    return values


def _augmented(value: Any) -> None:
    """A value after `+=` and the like, which copies it where it cannot be changed."""
    _total[0] += 1 + (size_of(value) if isinstance(value, _VALUES) else 0)


def _contains(item: Any, holder: Any) -> bool:
    found = item in holder
    if type(holder) in _LISTS:
        _total[0] += 1 + (list(holder).index(item) if found else len(holder)) // ITEMS_PER_STEP
    else:
        _total[0] += 1 + (len(holder) // PER_STEP if isinstance(holder, _TEXTS) else 0)
    return found


def _equal(left: Any, right: Any) -> Any:
    found = left == right
    inside = isinstance(left, (dict, list, tuple)) and found is True
    _total[0] += _deep(left) if inside else 1 + min(size_of(left), size_of(right))
    return found


def _call(function: Any, /, *arguments: Any, **named: Any) -> Any:
    if isinstance(function, _FUNCTIONS):
        foreign = (function.__module__ or "").split(".")[0] not in _counted
        _total[0] += FOREIGN + sum(map(size_of, arguments)) if foreign else 1
        return function(*arguments, **named)
    name = getattr(function, "__name__", "")
    cost = 1
    if name not in _CONSTANT and not (isinstance(function, type) and function.__module__ != "builtins"):
        cost += sum(map(size_of, arguments))
        if name in _OWN:
            own = getattr(function, "__self__", None)
            scanned = name in _SCANS and isinstance(own, bytes)
            cost += len(own) // SCANNED_PER_STEP if scanned else size_of(own)
        if name in ("sorted", "sort"):
            cost = int(cost * (1 + math.log2(cost)))
    _total[0] += cost
    result = function(*arguments, **named)
    if isinstance(result, _TEXTS) or (name not in _CONSTANT and type(result) in _SIZED):
        _total[0] += size_of(result)
    return result


helpers = {
    f"__steps_{function.__name__.strip('_')}__": function
    for function in (_one, _sized, _each, _augmented, _contains, _equal, _call)
}


def _helper(name: str, *arguments: ast.expr, keywords: Iterable[ast.keyword] = ()) -> ast.Call:
    return ast.Call(ast.Name(f"__steps_{name}__", ast.Load()), list(arguments), list(keywords))


class _Counter(ast.NodeTransformer):
    """Leaves what is outside of functions, and annotations, as they are."""

    def __init__(self) -> None:
        self._inside = 0

    def _statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            found = self.visit(statement)
            made += found if isinstance(found, list) else [found]
        return made

    def _function(self, node: Any) -> Any:
        self._inside += 1
        node.body = self._statements(node.body)
        self._inside -= 1
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815  as ast names them

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._inside += 1
        node.body = self.visit(node.body)
        self._inside -= 1
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def _loop(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        if self._inside:
            node.body.insert(0, ast.Expr(_helper("one")))
        return node  # type: ignore[no-any-return]

    visit_For = visit_AsyncFor = visit_While = _loop  # noqa: N815  as ast names them

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if self._inside and not node.is_async:
            node.iter = _helper("each", node.iter)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not self._inside or not isinstance(node.target, ast.Name):
            return node
        return [node, ast.Expr(_helper("augmented", ast.Name(node.target.id, ast.Load())))]

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if not self._inside or len(node.ops) > 1:
            return node
        operator, right = node.ops[0], node.comparators[0]
        if isinstance(operator, (ast.In, ast.NotIn)):
            found = _helper("contains", node.left, right)
        elif isinstance(operator, (ast.Eq, ast.NotEq)):
            found = _helper("equal", node.left, right)
        else:
            return node
        return ast.UnaryOp(ast.Not(), found) if isinstance(operator, (ast.NotIn, ast.NotEq)) else found

    def _made(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        return _helper("sized", node) if self._inside else node

    visit_BinOp = visit_JoinedStr = _made  # noqa: N815  as ast names them

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node.value = self.visit(node.value)
        return node

    def _display(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        parts = node.keys if isinstance(node, ast.Dict) else node.elts
        unpacks = any(part is None or isinstance(part, ast.Starred) for part in parts)
        stored = isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))
        return _helper("sized", node) if self._inside and unpacks and not stored else node

    visit_Dict = visit_List = visit_Tuple = visit_Set = _display  # noqa: N815  as ast names them

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        copies = isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load)
        return _helper("sized", node) if self._inside and copies else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not self._inside or (isinstance(node.func, ast.Name) and node.func.id in _FRAMES):
            return node
        return _helper("call", node.func, *node.args, keywords=node.keywords)
