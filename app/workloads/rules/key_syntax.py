"""Syntax of keys: text to a checked JMESPath tree, with errors for people.

The grammar is that of JMESPath. Refused beyond it: texts and trees beyond the limits below (parsing and evaluating are
recursive), functions that do not exist or get the wrong number of arguments, `&` outside of a function, and the old
form of literals that the library deprecates. Nothing here evaluates anything.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from jmespath.exceptions import JMESPathError, ParseError
from jmespath.functions import Functions
from jmespath.lexer import Lexer
from jmespath.parser import Parser

from app.text import SHOWN, quoted

MAX_LENGTH = 1024
"""Characters; the longest possible annotation name takes a third of it."""
MAX_TOKENS = 128
"""Identifiers, dots, brackets … together; it bounds the recursion of the parser."""
MAX_DEPTH = 32
"""Levels of the tree and of literals in it; it bounds the recursion of the interpreter."""

_QUOTING = "names with anything but letters, digits and _ stand in double quotes"
_UNQUOTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OF_LABEL = re.compile(r"""(?:\w+\.)*(labels|annotations)(?:\.|\[)(['"`]?)([-\w./]+)\2\]?""", re.ASCII)
"""A label or an annotation as people write it whose name has to be quoted."""
_MISPLACED = "& can only stand before an argument that a function evaluates by itself"
_MOST_NAMES = 16
_NAME = r'(?:[A-Za-z_][A-Za-z0-9_]*|"[^"\\\x00-\x1f\ud800-\udfff]+")'
_PATH = re.compile(rf"{_NAME}(?:\.{_NAME}){{0,{_MOST_NAMES - 1}}}", re.ASCII)
_NAMES = re.compile(_NAME, re.ASCII)
_WALKING = ("subexpression", "current", "identity", "field")


def parse(text: str) -> dict[str, Any]:
    """The tree of the library's parser; raises ValueError."""
    if not text.strip(" \t\r\n"):
        raise ValueError("a key must not be empty: name a field, for instance metadata.resourceName, or @ for all")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"key {quoted(text)} has {len(text)} characters: at most {MAX_LENGTH}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PendingDeprecationWarning)
            count = sum(1 for _ in Lexer().tokenize(text)) - 1
            if count > MAX_TOKENS:
                raise ValueError(f"key {quoted(text)} has {count} parts: at most {MAX_TOKENS}")
            tree = cast("dict[str, Any]", Parser().parse(text).parsed)
    except PendingDeprecationWarning:
        raise ValueError(f"key {quoted(text)}: a literal in backquotes must be JSON; write text as 'text'") from None
    except JMESPathError as error:
        raise ValueError(f"key {quoted(text)} is not a JMESPath expression: {_reason(error, text)}") from None
    except RecursionError:
        raise ValueError(f"key {quoted(text)} is nested too deeply: at most {MAX_DEPTH} levels") from None
    problem = _problem(tree)
    if problem:
        raise ValueError(f"key {quoted(text)}: {problem}")
    return tree


def plain_names(text: str) -> tuple[str, ...] | None:
    """The names of a key that is written as a plain path; None where it takes `parse` to read it.

    Nearly every key is such a path, and the parser takes a hundred times as long.
    """
    if len(text) > MAX_LENGTH or not _PATH.fullmatch(text):
        return None
    return tuple(name.strip('"') for name in _NAMES.findall(text))


def plain_path(tree: dict[str, Any]) -> tuple[str, ...] | None:
    """The names of a tree that only walks down maps (none at all for `@`), else None."""
    names: list[str] = []
    for node, _ in _walk(tree):
        if node["type"] not in _WALKING:
            return None
        if node["type"] == "field":
            names.append(node["value"])
    return tuple(names)


def path_text(names: Iterable[str]) -> str:
    """The key that walks down these names, quoted where they have to be; "" for none."""
    return ".".join(name if _UNQUOTED.fullmatch(name) else json.dumps(name, ensure_ascii=False) for name in names)


def _reason(error: JMESPathError, text: str) -> str:
    """What the library found, without its drawing, the place, counted from 1, and what was probably meant."""
    reason, meant = _found(error, text), _OF_LABEL.fullmatch(text.strip())
    return f"{reason}; write {path_text(('state', 'extra', meant[1], meant[3]))}" if meant else reason


def _found(error: JMESPathError, text: str) -> str:
    if not isinstance(error, ParseError):
        return str(error)
    position = error.lex_position
    if error.token_value is None or position >= len(text):
        return "it ends too early"
    message = str(getattr(error, "message", None) or error.msg)[: 2 * SHOWN]
    rest = text[position : position + 20]
    hint = f" ({_QUOTING})" if message.startswith("Unknown token") else ""
    return f"{message[:1].lower()}{message[1:]} at character {position + 1}, before {rest!r}{hint}"


def _problem(tree: dict[str, Any]) -> str | None:
    deepest = 0
    for node, depth in _walk(tree):
        deepest = max(deepest, depth)
        kind, children = node["type"], node.get("children", ())
        if kind == "function_expression" and (problem := _call_problem(node["value"], children)):
            return problem
        if kind != "function_expression" and any(_is_node(child) and child["type"] == "expref" for child in children):
            return _MISPLACED
        if kind == "literal" and (problem := _literal_problem(node["value"])):
            return problem
        if kind in ("field", "key_val_pair") and _unpaired(node["value"]):
            return "a name has half of a surrogate pair"
        if kind == "slice" and 0 in children[2:]:
            return "the step of a slice must not be 0"
    if tree["type"] == "expref":
        return _MISPLACED
    if deepest > MAX_DEPTH:
        return f"it is nested too deeply: at most {MAX_DEPTH} levels"
    return None


def _call_problem(name: str, arguments: Sequence[Any]) -> str | None:
    function = Functions.FUNCTION_TABLE.get(name)
    if function is None:
        return f"there is no function {name}()"
    signature, count = function["signature"], len(arguments)
    variadic = bool(signature and signature[-1].get("variadic"))
    if count < len(signature) or (count > len(signature) and not variadic):
        return f"{name}() takes {'at least ' * variadic}{len(signature)} arguments, not {count}"
    for at, argument in enumerate(arguments):
        types = signature[min(at, len(signature) - 1)]["types"]
        if argument["type"] == "expref" and "expref" not in types:
            return _MISPLACED
    return None


def _literal_problem(value: Any) -> str | None:
    level = [value]
    for _ in range(MAX_DEPTH):
        if any(isinstance(item, str) and _unpaired(item) for item in level):
            return "a literal has half of a surrogate pair"
        if any(isinstance(item, float) and not -float("inf") < item < float("inf") for item in level):
            return "a literal has a number that JSON has not"
        level = [part for item in level for part in _parts(item)]
        if not level:
            return None
    return f"a literal is nested too deeply: at most {MAX_DEPTH} levels"


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else []


def _unpaired(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _is_node(child: Any) -> bool:
    return isinstance(child, dict) and "type" in child


def _walk(tree: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Every node with its level, parents before their children and in the order of the text; without recursion."""
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        if node["type"] != "literal":
            waiting += [(child, depth + 1) for child in reversed(node.get("children", ())) if _is_node(child)]
