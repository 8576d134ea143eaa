"""The words of a CEL expression with their places, and errors that point at a place as the API server's do. Pure.

What is not an identifier is escaped where it is a field's name: `a-b` as `a__dash__b`, `in` as `__in__`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
        found = _RAW.match(source, at)
        kind = "string" if found else ""
        if found is None:
            found = _TOKEN.match(source, at)
            if found is None:
                raise Fault(f"Syntax error: token recognition error at: '{source[at : at + 1]}'", at)
            if found["unsigned"]:
                raise Fault("the sandbox does not speak unsigned numbers", at)
            kind = found.lastgroup or ""
        if kind != "space":
            tokens.append(Token(kind, found[0], at))
        at = found.end()
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
