"""Reads a CEL expression into a tree. Pure; `checking` decides whether its parts fit together.

Operators by binding: `?:`, `||`, `&&`, relations and `in`, `+ -`, `* / %`, `! -`, then member, index and call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.cel.tokens import RESERVED, Fault, Token, located, number_of, string_of, tokens_of
from app.errors import BerthError

MACROS: dict[str, tuple[int, ...]] = {"all": (2,), "exists": (2,), "exists_one": (2,), "filter": (2,), "map": (2, 3)}
"""Macros over lists and maps, with how many arguments they take; the first one names a variable."""
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_LITERALS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_MAX_LENGTH = 10_000
_MAX_DEPTH = 60


class BadExpression(BerthError):
    """The expression cannot be read, does not fit its types, or uses CEL that the sandbox does not speak."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: `kind` names it, `value` is its literal, name or operator (`_+_`), `parts` are its operands."""

    kind: str
    value: Any = None
    parts: tuple[Node, ...] = ()
    at: int = 0
    """The place that a message about it points at, an index into the source."""


def parse(expression: str) -> Node:
    """The tree of `expression`; raises `BadExpression` with a message that says where and why."""
    if len(expression) > _MAX_LENGTH:
        raise BadExpression(f"the expression is longer than {_MAX_LENGTH} characters")
    try:
        return _Parser(tokens_of(expression)).read()
    except Fault as fault:
        raise BadExpression(located(expression, [fault])) from fault


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def read(self) -> Node:
        node = self._ternary()
        if self._next.kind != "end":
            raise self._unexpected()
        return node

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _unexpected(self) -> Fault:
        return Fault(f"Syntax error: mismatched input '{self._next.text}'", self._next.at)

    def _take(self, *texts: str) -> Token | None:
        token = self._next
        if token.kind in ("sign", "name") and token.text in texts:
            self._at += 1
            return token
        return None

    def _expect(self, text: str) -> Token:
        token = self._take(text)
        if token is None:
            raise self._unexpected()
        return token

    def _ternary(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Fault("the expression is nested too deeply", self._next.at)
        node = self._binary(0)
        if mark := self._take("?"):
            yes = self._binary(0)
            self._expect(":")
            node = Node("if", None, (node, yes, self._ternary()), mark.at)
        self._depth -= 1
        return node

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        node = self._binary(level + 1)
        while (sign := self._take(*_LEVELS[level])) is not None:
            node = Node(
                "binary", "@in" if sign.text == "in" else f"_{sign.text}_", (node, self._binary(level + 1)), sign.at
            )
        return node

    def _unary(self) -> Node:
        signs: list[Token] = []
        while (sign := self._take("!", "-")) is not None:
            signs.append(sign)
        node = self._postfix()
        for sign in reversed(signs):
            number = node.kind == "literal" and isinstance(node.value, int | float) and not isinstance(node.value, bool)
            if sign.text == "-" and number:
                node = Node("literal", -node.value, at=sign.at)
            else:
                node = Node("unary", f"{sign.text}_", (node,), sign.at)
        if node.kind == "literal" and isinstance(node.value, int) and node.value == 2**63:
            raise Fault("invalid int literal", node.at)
        return node

    def _postfix(self) -> Node:
        node = self._primary()
        while True:
            if dot := self._take("."):
                node = self._member(node, dot)
            elif bracket := self._take("["):
                if self._next.text == "?":
                    raise Fault("the sandbox does not speak optional selection", self._next.at)
                node = Node("index", "_[_]", (node, self._ternary()), bracket.at)
                self._expect("]")
            else:
                return node

    def _member(self, target: Node, dot: Token) -> Node:
        token = self._next
        if token.text == "?":
            raise Fault("the sandbox does not speak optional selection", token.at)
        if token.kind != "name" or token.text in _LITERALS or token.text == "in":
            raise self._unexpected()
        self._at += 1
        opened = self._take("(")
        if not opened:
            return Node("member", token.text, (target,), dot.at)
        arguments = self._list(")")
        if token.text in MACROS:
            return _macro(token, target, arguments, opened)
        return Node("method", token.text, (target, *arguments), opened.at)

    def _list(self, end: str) -> tuple[Node, ...]:
        """Arguments or elements up to `end`; of a map literal, keys and values one after the other."""
        elements: list[Node] = []
        while not self._take(end):
            if elements:
                self._expect(",")
                if end != ")" and self._take(end):  # literals may end with a comma
                    break
            elements.append(self._ternary())
            if end == "}":
                self._expect(":")
                elements.append(self._ternary())
        return tuple(elements)

    def _primary(self) -> Node:
        token = self._next
        self._at += 1
        if token.kind == "number":
            return Node("literal", number_of(token), at=token.at)
        if token.kind == "string":
            return Node("literal", string_of(token), at=token.at)
        if token.kind == "name":
            return self._name(token)
        if token.text == "(":
            node = self._ternary()
            self._expect(")")
            return node
        if token.text == "[":
            return Node("list", None, self._list("]"), token.at)
        if token.text == "{":
            return Node("map", None, self._list("}"), token.at)
        self._at -= 1
        raise self._unexpected()

    def _name(self, token: Token) -> Node:
        if token.text in _LITERALS:
            return Node("literal", _LITERALS[token.text], at=token.at)
        if token.text == "in":
            self._at -= 1
            raise self._unexpected()
        if token.text in RESERVED:
            raise Fault(f"Syntax error: reserved identifier: {token.text}", token.at)
        opened = self._take("(")
        if not opened:
            return Node("variable", token.text, at=token.at)
        arguments = self._list(")")
        if token.text != "has":
            return Node("function", token.text, arguments, opened.at)
        if len(arguments) != 1 or arguments[0].kind != "member":
            raise Fault("invalid argument to has() macro", arguments[0].at if arguments else opened.at)
        return Node("has", arguments[0].value, arguments[0].parts, opened.at)


def _macro(token: Token, target: Node, arguments: tuple[Node, ...], opened: Token) -> Node:
    if len(arguments) not in MACROS[token.text]:
        raise Fault(f"the sandbox does not speak {token.text}() with {len(arguments)} argument(s)", opened.at)
    variable = arguments[0]
    if variable.kind != "variable":
        raise Fault("argument must be a simple name", variable.at)
    return Node("macro", (token.text, variable.value), (target, *arguments[1:]), opened.at)
