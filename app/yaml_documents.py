"""YAML as kubectl and API servers read it, into values of JSON. Pure.

They read by `sigs.k8s.io/yaml` 1.6.0 over `go.yaml.in/yaml/v2` 2.4.4 (Kubernetes 1.37): a part of YAML 1.1 with rules
of its own. `y` is true, `0o400` and `0400` are 256, `12e4567` and `=` are texts, dates too, `1e3` is the number 1000,
keys are texts, of two equal keys the last counts, and a merge (`<<`) replaces what stands before it in its mapping.
`tests/unit/kube/kubectl_yaml.json` has what they make of several hundred texts.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from app.yaml_scalars import YamlError as YamlError  # noqa: PLC0414  readers import it from here
from app.yaml_scalars import finite, is_merge, key_text, scalar_value

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""That of libyaml takes a tenth of the time; PyYAML may be built without it."""
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
LEVELS = 400
"""Of mappings and lists in each other: what goes through the objects afterwards has one call a level."""
_SEPARATOR = re.compile(r"^---(.*)\n?", re.MULTILINE)
_FORBIDDEN = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_QUOTED_REST = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)
_READ_AGAIN = 1 << 20
"""Characters that are read once more, or again, because of `\\'` in them."""
_NONE, _MERGE = object(), object()
"""In the place of a key: none yet; that of a merge."""
_NOT_READ = "kubectl does not read what follows the end of a document here: part documents by a line of ---"
_MERGED = "a merge (<<) wants a mapping or a list of mappings"


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
    document = _read(text if isinstance(text, str) else text_in(text))
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
        document = _read(text[position:])
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


def _read(text: str) -> _Document:
    r"""The first document of a text. Raises `YamlError`.

    kubectl's parser knows one escape that this one does not, `\'` between quotation marks: the quoted scalar in which
    it is found is written without, and the text is read again, until `_READ_AGAIN` characters have been.
    """
    left = _READ_AGAIN
    while True:
        document = _Document(text)
        try:
            document.read()
        except YamlError:
            left -= len(text)
            plain = _without_escapes(text, document.odd_escape)
            if plain == text or left < 0:
                raise
            text = plain
        else:
            return document


def _without_escapes(text: str, index: int) -> str:
    r"""With `'` for each `\'` from `index` on, in the scalar that goes on there.

    The index is that of the backslash, or of what follows it; a byte order mark in the text is not counted.
    """
    start = next((near for near in (index, index - 1, index + 1) if near >= 0 and text.startswith("\\'", near)), None)
    if start is None or index < 0 or not (rest := _QUOTED_REST.match(text, start)):
        return text
    return text[:start] + _ESCAPE.sub(lambda escape: escape[0].replace("\\'", "'"), rest[0]) + text[rest.end() :]


class _Document:
    """The first document of a text: its `value`, the `line` of that, and the fault in what follows, `rest`."""

    def __init__(self, text: str) -> None:
        self.line = 1
        self.value: Any = None
        self.odd_escape = -1
        """Where an escape is that the parser does not know; -1 where there is none."""
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
            if mark and (error.problem or "").startswith("found unknown escape character"):
                self.odd_escape = mark.index
            place = (mark.line + 1, mark.column + 1) if mark else ()
            raise YamlError(error.problem or error.context or "", *place) from error
        except yaml.YAMLError as error:
            raise YamlError(" ".join(str(error).split())) from error

    def _take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            value, merge = scalar_value(event), is_merge(event)
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
            self.value = finite(value)
            return
        top = self._open[-1]
        if isinstance(top.value, list):
            top.value.append(finite(value))
        elif top.key is _NONE:
            top.key = _MERGE if merge else key_text(value)
        else:
            key, top.key = top.key, _NONE
            if key is not _MERGE:
                top.value[key] = finite(value)
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


def _json_float(text: str) -> Any:
    if not math.isfinite(value := float(text)):
        raise YamlError(f"{text[:40]} is no number of 64 bits")
    return finite(value)


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_VISIBLE = re.compile(r"\S")
_JSON = json.JSONDecoder(parse_float=_json_float, parse_constant=_no_constant)
