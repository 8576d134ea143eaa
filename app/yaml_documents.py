"""YAML as kubectl and API servers read it, into values of JSON. Pure.

They read by `sigs.k8s.io/yaml` 1.6.0 over `go.yaml.in/yaml/v2` 2.4.4 (Kubernetes 1.37): a part of YAML 1.1 with rules
of its own. `y` is true, `0o400` and `0400` are 256, `12e4567` and `=` are texts, dates too, `1e3` is the number 1000,
keys are texts, of two equal keys the last counts, and a merge (`<<`) replaces what stands before it in its mapping.
`tests/unit/kube/kubectl_yaml.json` has what they make of several hundred texts.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import json
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import yaml

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""That of libyaml takes a tenth of the time; PyYAML may be built without it."""
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
LEVELS = 400
"""Of mappings and lists in each other: what goes through the objects afterwards has one call a level."""
_SEPARATOR = re.compile(r"^---(.*)\n?", re.MULTILINE)
_FORBIDDEN = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NONE, _MERGE = object(), object()
"""In the place of a key: none yet; that of a merge."""
_NOT_READ = "kubectl does not read what follows the end of a document here: part documents by a line of ---"
_MERGED = "a merge (<<) wants a mapping or a list of mappings"
_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | float | None] = {
    form: value
    for words, value in (
        (("y", "yes", "true", "on"), True),
        (("n", "no", "false", "off"), False),
        (("null",), None),
        ((".inf", "+.inf"), math.inf),
        (("-.inf",), -math.inf),
    )
    for word in words
    for form in (word, word.upper(), word.capitalize() if word[0].isalpha() else word.replace("inf", "Inf"))
} | {"": None, "~": None, ".nan": math.nan, ".NaN": math.nan, ".NAN": math.nan}
_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_BINARY = re.compile(r"0b([+-][01]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_FRACTION = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?", re.ASCII)
_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[Tt]\d\d?:\d\d?:\d\d?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)| \d\d?:\d\d?:\d\d?(?:\.\d+)?)?", re.ASCII
)
_TYPES = {"bool": bool, "int": int, "float": float, "null": type(None), "timestamp": str}


class YamlError(ValueError):
    """A text is neither YAML nor JSON, or says what JSON cannot say. `line` and `column` count from 1; 0 is unknown."""

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        where = f"line {line}, column {column}: " if column else f"line {line}: " if line else ""
        super().__init__(where + problem)
        self.problem, self.line, self.column = problem, line, column

    def moved(self, line: int) -> YamlError:
        """The same in a text of which this one is a part that begins at `line`."""
        return YamlError(self.problem, line + max(self.line, 1) - 1, self.column)


def text_in(content: bytes) -> str:
    """What a file holds: UTF-8, or what a byte order mark at its start says. Raises UnicodeDecodeError.

    As kubectl reads files (`unicode.BOMOverride` in `pkg/resource/visitor.go` of k8s.io/cli-runtime).
    """
    for mark, encoding in _MARKS.items():
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding)
    return content.decode()


def load_yaml(text: str | bytes) -> Any:
    """The one document of this text, None where there is none. Raises `YamlError` or UnicodeDecodeError."""
    document = _Document(text if isinstance(text, str) else text_in(text))
    document.read()
    if document.rest:
        raise document.rest
    return document.value


def documents_in(text: str) -> Iterator[tuple[int, Any] | YamlError]:
    """The values of the documents in a text with their lines, and what cannot be read.

    Documents are parted by lines that begin with `---`, or follow each other as JSON. kubectl reads no further than the
    end of the first document of YAML between such lines: what follows there is a `YamlError`. Lines count from 1.
    """
    text, start, line = text.replace("\r\n", "\n"), 0, 1
    text += "" if text.endswith("\n") else "\n"  # it shows in a block scalar at the end
    for separator in _SEPARATOR.finditer(text):
        yield from _between_separators(text[start : separator.start()], line)
        line += text.count("\n", start, separator.start())
        if (after := separator[1].strip()) and not after.startswith("#"):
            yield YamlError(f"want nothing but a comment after ---, got {after[:40]}", line)
        line += 1
        start = separator.end()
    yield from _between_separators(text[start:], line)


def _between_separators(text: str, line: int) -> Iterator[tuple[int, Any] | YamlError]:
    position = 0
    try:
        if text.lstrip().startswith("{"):
            values, position = _json_values(text, line)
            yield from values
            line += text.count("\n", 0, position)
        document = _Document(text[position:])
        document.read()
    except YamlError as error:
        yield error.moved(line)
        return
    yield line + document.line - 1, document.value
    if document.rest:
        yield document.rest.moved(line)


def _has_levels(value: Any) -> bool:
    """Whether there are more of them than there may be."""
    level = [value]
    for _ in range(LEVELS):
        inner = [collection for collection in level if isinstance(collection, dict | list)]
        if not inner:
            return False
        members = (collection.values() if isinstance(collection, dict) else collection for collection in inner)
        level = [item for items in members for item in items]
    return any(isinstance(collection, dict | list) for collection in level)


def _json_values(text: str, line: int) -> tuple[list[tuple[int, Any]], int]:
    """The values of JSON at the beginning of the text with their lines, and where what is no JSON begins."""
    position, start, values = 0, line, []
    while match := _VISIBLE.search(text, position):
        start += text.count("\n", position, match.start())
        try:
            value, end = _JSON.raw_decode(text, match.start())
        except YamlError as error:
            raise YamlError(error.problem, start - line + 1) from error
        except (ValueError, RecursionError):
            break
        if _has_levels(value):
            raise YamlError(f"nested in more than {LEVELS} levels", start - line + 1)
        if "\\ud" in text[position:end].lower():
            # Halves of surrogate pairs, which no UTF-8 can say, are U+FFFD in Go.
            whole = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
            value = _JSON.decode(whole.decode("utf-16", "replace"))
        values.append((start, value))
        start += text.count("\n", match.start(), end)
        position = end
    return values, position


class _Document:
    """The first document of a text: its `value`, the `line` of that, and the fault in what follows, `rest`."""

    def __init__(self, text: str) -> None:
        self.line = 1
        self.value: Any = None
        self.rest: YamlError | None = None
        self._text, self._left = text, 10 * len(text) + 1000
        self._anchors: dict[str, Any] = {}
        self._open: list[_Collection] = []

    def read(self) -> None:
        """Read the document. Raises `YamlError`, with its place."""
        parser, started = _PARSER(self._text), False
        try:
            with self._placed():
                while (event := parser.get_event()) is not None and not isinstance(event, yaml.DocumentEndEvent):
                    if not started and isinstance(event, yaml.NodeEvent):
                        started, self.line = True, _mark(event)[0]
                    try:
                        self._take(event)
                    except YamlError as error:
                        raise YamlError(error.problem, *_mark(event)) from error
            try:
                with self._placed():
                    event = parser.get_event() if event else None
                if event is not None and not isinstance(event, yaml.StreamEndEvent):
                    self.rest = YamlError(_NOT_READ, *_mark(event))
            except YamlError as error:
                self.rest = error
        finally:
            parser.dispose()

    @contextlib.contextmanager
    def _placed(self) -> Iterator[None]:
        """Turns what the parser raises into `YamlError`."""
        try:
            yield
        except yaml.reader.ReaderError as error:
            odd = _FORBIDDEN.search(self._text)
            line = self._text.count("\n", 0, odd.start()) + 1 if odd else 0
            raise YamlError("a character that it does not allow", line) from error
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = (mark.line + 1, mark.column + 1) if mark else ()
            raise YamlError(error.problem or error.context or "", *place) from error
        except yaml.YAMLError as error:
            raise YamlError(" ".join(str(error).split())) from error

    def _take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            value, merge = _scalar(event), _is_merge(event)
            if event.anchor:
                self._anchors[event.anchor] = value
            self._place(value, merge=merge)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self._open) >= LEVELS:
                raise YamlError(f"nested in more than {LEVELS} levels")
            if event.anchor:
                self._anchors[event.anchor] = _NONE
            self._open.append(_Collection({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            if done.anchor:
                self._anchors[done.anchor] = done.value
            self._place(done.value)
        elif isinstance(event, yaml.AliasEvent):
            self._place(self._aliased(str(event.anchor)))

    def _aliased(self, anchor: str) -> Any:
        if anchor not in self._anchors:
            raise YamlError(f"no anchor {anchor} stands before its alias")
        if (value := self._anchors[anchor]) is _NONE:
            raise YamlError(f"the value of anchor {anchor} contains itself")
        if isinstance(value, list) and self._open and self._open[-1].key is _MERGE:
            raise YamlError(_MERGED)
        return self._copied(value, len(self._open))

    def _place(self, value: Any, *, merge: bool = False) -> None:
        if not self._open:
            self.value = _finite(value)
            return
        top = self._open[-1]
        if isinstance(top.value, list):
            top.value.append(_finite(value))
        elif top.key is _NONE:
            top.key = _MERGE if merge else _key(value)
        else:
            key, top.key = top.key, _NONE
            if key is not _MERGE:
                top.value[key] = _finite(value)
                return
            for mapping in reversed(value) if isinstance(value, list) else (value,):
                if not isinstance(mapping, dict):
                    raise YamlError(_MERGED)
                top.value.update(mapping)

    def _copied(self, value: Any, level: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise YamlError("aliases make the document many times larger than its text: write it out")
        if level > LEVELS:
            raise YamlError(f"nested in more than {LEVELS} levels")
        if isinstance(value, list):
            items = []
            for item in value:
                items.append(self._copied(item, level + 1))  # noqa: PERF401  a comprehension is one more call a level
            return items
        if isinstance(value, dict):
            members = {}
            for key, member in value.items():
                members[key] = self._copied(member, level + 1)
            return members
        return value


@dataclass(slots=True)
class _Collection:
    """A mapping or list that has not ended; `key` is that of the next value."""

    value: Any
    anchor: str | None
    key: Any = _NONE


def _mark(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _is_merge(event: Any) -> bool:
    return event.value == "<<" and (event.tag == _TAG + "merge" or (event.tag is None and event.implicit[0]))


def _scalar(event: Any) -> Any:
    """The value of a scalar, before JSON: numbers may be infinite."""
    tag, text = event.tag, event.value
    if tag is None:
        return _plain(text) if event.implicit[0] else text
    name = tag.removeprefix(_TAG) if tag.startswith(_TAG) else ""
    if name == "binary":
        try:
            return base64.b64decode(re.sub(r"[\r\n]", "", text), validate=True).decode(errors="replace")
        except ValueError as error:  # binascii.Error is one; characters beyond ASCII are another
            raise YamlError("!!binary: want base64") from error
    if name not in _TYPES:
        return text
    if name == "timestamp" and _DATE.fullmatch(text):
        return text
    value = _plain(text)
    if name == "float" and type(value) is int and value < 1 << 63:
        return float(value)
    if type(value) is not _TYPES[name] or name == "timestamp":
        raise YamlError(f"!!{name}: {text[:40]!r} is none")
    return value


def _plain(text: str) -> Any:
    """What a scalar without quotation marks and without a tag stands for."""
    if text in _WORDS:
        return _WORDS[text]
    plain = text.replace("_", "")
    if text[0] == ".":
        is_float = _FRACTION.fullmatch(text)
    elif text[0] in "+-0123456789":
        if (number := _integer(plain)) is not None:
            return number
        is_float = _FLOAT.fullmatch(plain)
    else:
        return text
    return value if is_float and math.isfinite(value := float(plain)) else text


def _integer(text: str) -> int | None:
    """As `strconv.ParseInt(text, 0, 64)` and `ParseUint` read it; None for what they refuse."""
    if not (match := _INTEGER.fullmatch(text)):
        binary = _BINARY.fullmatch(text)
        number = int(binary[1], 2) if binary else None
        return number if number is not None and -(1 << 63) <= number < 1 << 63 else None
    sign, hexadecimal, binary_digits, octal, decimal = match.groups()
    if decimal and len(decimal) > 20:
        return None
    number = next(
        int(digits, base)
        for digits, base in ((hexadecimal, 16), (binary_digits, 2), (octal, 8), (decimal, 10))
        if digits is not None
    )
    number = -number if sign == "-" else number
    return number if -(1 << 63) <= number < (1 << 63 if sign else 1 << 64) else None


def _finite(value: Any) -> Any:
    """A value in JSON as `encoding/json` writes it: 60.0 is 60. Raises `YamlError` for what JSON cannot say."""
    if type(value) is not float:
        return value
    if not math.isfinite(value):
        raise YamlError(f"{value} is no number of JSON")
    return int(Decimal(repr(value))) if value.is_integer() and abs(value) < 1e21 else value


def _json_float(text: str) -> Any:
    if not math.isfinite(value := float(text)):
        raise YamlError(f"{text[:40]} is no number of 64 bits")
    return _finite(value)


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_VISIBLE = re.compile(r"\S")
_JSON = json.JSONDecoder(parse_float=_json_float, parse_constant=_no_constant)


def _key(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value < 1 << 63:
        return str(value)
    if isinstance(value, float):
        return _float_key(value)
    raise YamlError(f"a key of a mapping is {'null' if value is None else 'no text'}: want a text")


def _float_key(value: float) -> str:
    """As `strconv.FormatFloat(value, 'g', -1, 32)` writes it: the shortest text of that number of 32 bits."""
    single = _single(value)
    if not math.isfinite(single):
        return ".nan" if math.isnan(single) else ".inf" if single > 0 else "-.inf"
    text = next(text for digits in range(17) if _single(float(text := f"{single:.{digits}e}")) == single)
    return f"{Decimal(text):f}" if -5 < int(text.partition("e")[2]) < 6 else text


def _single(value: float) -> float:
    """The nearest number of 32 bits."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
