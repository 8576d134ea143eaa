"""Reads a CEL expression into words and a tree. Pure; `checking` decides whether its parts fit together.

Operators by binding: `?:`, `||`, `&&`, relations and `in`, `+ -`, `* / %`, `! -`, then member, index and call. Words
know their places, and errors point at a place as the API server's do. What is not an identifier is escaped where it
is a field's name: `a-b` as `a__dash__b`, `in` as `__in__`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from app.errors import BerthError

_TOKEN = re.compile(
    r"""(?:
      (?P<space>\s+|//[^\n]*)
    | (?P<number>0[xX][0-9a-fA-F]+|\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+)(?P<unsigned>[uU])?
    | (?P<string>[rRbB]{0,2}(?:
        \"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>\|\||&&|==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])
    )""",
    re.VERBOSE | re.DOTALL,
)
_RAW = re.compile(r"""[rR](?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*')""", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
})  # fmt: skip
_KEYWORDS = RESERVED | {"true", "false", "null", "in"}
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = {word: text for text, word in _ESCAPES.items()}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
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
_MAX_LENGTH = 100_000
"""As cel-go's parser has it (`expressionSizeCodePointLimit`)."""
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


class Fault(BerthError):
    """What is wrong at one place (`at`, the index of a character); `located` makes the message of it."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.at = at


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is number, string, name, sign or end; `at` is the index of its first character."""

    kind: str
    text: str
    at: int


def located(source: str, faults: list[Fault]) -> str:
    """All faults as the API server prints them: line and column, the line itself, and a pointer below it."""
    parts: list[str] = []
    for fault in sorted(faults, key=lambda fault: fault.at):
        before = source[: fault.at]
        line, column = before.count("\n"), fault.at - (before.rfind("\n") + 1)
        text = (source.split("\n") or [""])[line]
        parts.append(f"ERROR: <input>:{line + 1}:{column + 1}: {fault}\n | {text}\n | {'.' * column}^")
    return "\n".join(parts)


def tokens_of(source: str) -> list[Token]:
    """The tokens, closed by one of kind `end`; raises `Fault`."""
    tokens: list[Token] = []
    at = 0
    while at < len(source):
        match = _RAW.match(source, at)
        kind = "string" if match else ""
        if match is None:
            match = _TOKEN.match(source, at)
            if match is None:
                raise Fault(f"Syntax error: token recognition error at: '{source[at : at + 1]}'", at)
            if match["unsigned"]:
                raise Fault("the sandbox does not speak unsigned numbers", at)
            kind = match.lastgroup or ""
        if kind != "space":
            tokens.append(Token(kind, match[0], at))
        at = match.end()
    return [*tokens, Token("end", "<EOF>", len(source))]


def number_of(token: Token) -> int | float:
    """The value of a number token; raises `Fault` for an int of more than 64 bits."""
    text = token.text.lower()
    base = 16 if text.startswith("0x") else 10
    if base == 10 and ("." in text or "e" in text):
        return float(text)
    value = int(text, base)
    if value > 2**63:  # its negative may still be an int
        raise Fault("invalid int literal", token.at)
    return value


def string_of(token: Token) -> str:
    """The value of a string token; raises `Fault` for bytes and for escapes that CEL does not have."""
    start = min(token.text.index(quote) for quote in "\"'" if quote in token.text)
    prefix = token.text[:start].lower()
    if "b" in prefix:
        raise Fault("the sandbox does not speak bytes", token.at)
    body = token.text[start:]
    width = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[width:-width]
    if "r" in prefix:
        return body

    def replace(match: re.Match[str]) -> str:
        wide, octal, char = match.groups()
        if char is None:
            code = int(octal, 8) if octal else int(wide[1:], 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                raise Fault("invalid unicode code point", token.at)
            return chr(code)
        if char not in _PLAIN and char not in "\\\"'`?":
            raise Fault(f"Syntax error: token recognition error at: '\\{char}'", token.at)
        return _PLAIN.get(char, char)

    return _ESCAPE.sub(replace, body)


def escaped(name: str) -> str | None:
    """The field name as a rule has to write it, None where no rule can."""
    if name in _KEYWORDS:
        return f"__{name}__"
    text = re.sub(r"__|[./-]", lambda match: _ESCAPES[match[0]], name)
    return text if _IDENTIFIER.fullmatch(text) else None


def unescaped(name: str) -> str:
    """The field name that a rule means."""
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _KEYWORDS:
        return name[2:-2]
    return re.sub("|".join(_ESCAPED), lambda match: _ESCAPED[match[0]], name)


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
