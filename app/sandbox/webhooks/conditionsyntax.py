"""Reads the CEL subset of match conditions into a tree. Pure; refuses what `conditionvalues` cannot compute.

Operators by binding: `?:`, `||`, `&&`, relations and `in`, `+ -`, `! -`, then member, index and call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from app.errors import BerthError

METHODS = {"startsWith": 1, "endsWith": 1, "contains": 1, "matches": 1, "size": 0}
FUNCTIONS = {"size": 1, "string": 1, "int": 1}
MACROS = frozenset({"exists", "all", "exists_one"})
_RELATIONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>\d+\.\d+|\d+)
    | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>\|\||&&|==|!=|<=|>=|[-+<>!?:.,()\[\]])
    )""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_MAX_LENGTH = 10_000
_MAX_DEPTH = 60


class BadCondition(BerthError):
    """The expression cannot be read, or uses CEL that the sandbox does not speak."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: `kind` names it, `value` is its literal, name or operator, `parts` are its operands."""

    kind: str
    value: Any = None
    parts: tuple[Node, ...] = ()


def known_type(node: Node) -> str:
    """CEL's name for the type of the tree's value, "" where it depends on the request."""
    match node.kind:
        case "literal":
            return {bool: "bool", int: "int", float: "double", str: "string"}.get(type(node.value), "null_type")
        case "list":
            return "list"
        case "function":
            return "string" if node.value == "string" else "int"
        case "method":
            return "int" if node.value == "size" else "bool"
        case "macro" | "has":
            return "bool"
        case "binary" if node.value not in ("+", "-"):
            return "bool"
        case "unary" if node.value == "!":
            return "bool"
        case "binary" | "unary":
            return known_type(node.parts[0])
        case "if":
            return known_type(node.parts[1]) or known_type(node.parts[2])
    return ""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def parse(expression: str, variables: frozenset[str]) -> Node:
    """The tree of `expression`, which may use `variables`; raises `BadCondition` that says where."""
    if len(expression) > _MAX_LENGTH:
        raise BadCondition(f"the expression is longer than {_MAX_LENGTH} characters")
    return _Parser(_tokens(expression), variables).read()


def _tokens(expression: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    text = expression.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise BadCondition(f"unexpected {text[at:].lstrip()[:1]!r} at character {at + 1}")
        tokens.append(_Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup) + 1))
        at = found.end()
    return [*tokens, _Token("end", "", len(text) + 1)]


class _Parser:
    def __init__(self, tokens: list[_Token], variables: frozenset[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._variables = set(variables)

    def read(self) -> Node:
        node = self._ternary()
        if self._next.kind != "end":
            raise self._unexpected()
        return node

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _unexpected(self) -> BadCondition:
        token = self._next
        what = repr(token.text) if token.kind != "end" else "end of the expression"
        return BadCondition(f"unexpected {what} at character {token.at}")

    def _take(self, *texts: str) -> str | None:
        token = self._next
        if token.kind in ("sign", "name") and token.text in texts:
            self._at += 1
            return token.text
        return None

    def _expect(self, text: str) -> None:
        if self._take(text) is None:
            raise self._unexpected()

    def _ternary(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise BadCondition("the expression is nested too deeply")
        node = self._binary(0)
        if self._take("?"):
            yes = self._ternary()
            self._expect(":")
            node = Node("if", None, (node, yes, self._ternary()))
        self._depth -= 1
        return node

    def _binary(self, level: int) -> Node:
        levels: tuple[tuple[str, ...], ...] = (("||",), ("&&",), tuple(_RELATIONS), ("+", "-"))
        if level == len(levels):
            return self._unary()
        node = self._binary(level + 1)
        while (sign := self._take(*levels[level])) is not None:
            node = Node("binary", sign, (node, self._binary(level + 1)))
        return node

    def _unary(self) -> Node:
        signs: list[str] = []
        while (sign := self._take("!", "-")) is not None:
            signs.append(sign)
        node = self._postfix()
        for sign in reversed(signs):
            node = Node("unary", sign, (node,))
        return node

    def _postfix(self) -> Node:
        node = self._primary()
        while True:
            if self._take("."):
                node = self._member(node)
            elif self._take("["):
                node = Node("index", None, (node, self._ternary()))
                self._expect("]")
            else:
                return node

    def _member(self, target: Node) -> Node:
        token = self._next
        if token.kind != "name":
            raise self._unexpected()
        self._at += 1
        if not self._take("("):
            return Node("member", token.text, (target,))
        if token.text in MACROS:
            return self._macro(token.text, target)
        if token.text not in METHODS:
            raise BadCondition(f"the sandbox does not speak .{token.text}() (character {token.at})")
        return Node("method", token.text, (target, *self._arguments(token, METHODS[token.text])))

    def _macro(self, name: str, target: Node) -> Node:
        variable = self._next
        if variable.kind != "name":
            raise self._unexpected()
        self._at += 1
        self._expect(",")
        fresh = variable.text not in self._variables
        self._variables.add(variable.text)
        body = self._ternary()
        if fresh:
            self._variables.discard(variable.text)
        self._expect(")")
        return Node("macro", (name, variable.text), (target, body))

    def _arguments(self, token: _Token, count: int) -> list[Node]:
        arguments: list[Node] = []
        while not self._take(")"):
            if arguments:
                self._expect(",")
            arguments.append(self._ternary())
        if len(arguments) != count:
            raise BadCondition(f"{token.text}() takes {count} argument(s), not {len(arguments)} (character {token.at})")
        return arguments

    def _primary(self) -> Node:
        token = self._next
        self._at += 1
        if token.kind == "number":
            return Node("literal", float(token.text) if "." in token.text else int(token.text))
        if token.kind == "string":
            return Node("literal", _unquote(token))
        if token.kind == "name":
            return self._name(token)
        if token.text == "(":
            node = self._ternary()
            self._expect(")")
            return node
        if token.text == "[":
            elements: list[Node] = []
            while not self._take("]"):
                if elements:
                    self._expect(",")
                elements.append(self._ternary())
            return Node("list", None, tuple(elements))
        self._at -= 1
        raise self._unexpected()

    def _name(self, token: _Token) -> Node:
        literals = {"true": True, "false": False, "null": None}
        if token.text in literals:
            return Node("literal", literals[token.text])
        if self._take("("):
            return self._function(token)
        if token.text not in self._variables:
            raise BadCondition(f"undeclared reference to '{token.text}' (character {token.at})")
        return Node("variable", token.text)

    def _function(self, token: _Token) -> Node:
        if token.text == "has":
            (target,) = self._arguments(token, 1)
            if target.kind != "member":
                raise BadCondition(f"invalid argument to has() macro (character {token.at})")
            return Node("has", target.value, target.parts)
        if token.text not in FUNCTIONS:
            raise BadCondition(f"the sandbox does not speak {token.text}() (character {token.at})")
        return Node("function", token.text, tuple(self._arguments(token, FUNCTIONS[token.text])))


def _unquote(token: _Token) -> str:
    def replace(found: re.Match[str]) -> str:
        char = found[1]
        if char not in _ESCAPES and char not in "\\\"'`?":
            raise BadCondition(f"the sandbox does not speak the escape \\{char} (character {token.at})")
        return _ESCAPES.get(char, char)

    return re.sub(r"\\(.)", replace, token.text[1:-1])
