"""Reads YAML and JSON documents as Kubernetes tools do, and remembers where each one stood.

Knows nothing about kinds. What cannot be read raises UsageError with file, line and column.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.errors import UsageError
from app.wire import JSON

STDIN = "-"
_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Document:
    """One object and its place: file (or "stdin") and the line it begins at."""

    source: str
    line: int
    content: JSON

    @property
    def place(self) -> str:
        return f"{self.source}:{self.line}"


def read_documents(paths: Iterable[str]) -> list[Document]:
    """The objects in files, in directories (their *.yaml, *.yml and *.json) and, for "-", on standard input."""
    documents: list[Document] = []
    for path in dict.fromkeys(paths):
        for source, text in _read(path):
            documents += parse_documents(text, source=source)
    return documents


def parse_documents(text: str, *, source: str) -> list[Document]:
    """The objects in `text`; empty documents are left out, anything else that is no object is an error."""
    found = _parse_json(text)
    documents = []
    for line, content in _parse_yaml(text, source=source) if found is None else found:
        if content is None:
            continue
        if not isinstance(content, dict):
            raise UsageError(f"{source}:{line}: want an object with apiVersion and kind, got {_name(content)}")
        try:
            plain = _plain(content)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{source}:{line}: {error}") from error
        documents.append(Document(source, line, plain))
    return documents


def _read(path: str) -> Iterator[tuple[str, str]]:
    try:
        if path == STDIN:
            yield "stdin", sys.stdin.buffer.read().decode()
            return
        place = Path(path)
        files = [place]
        if place.is_dir():
            files = sorted(file for file in place.iterdir() if file.suffix in _SUFFIXES and file.is_file())
            if not files:
                raise UsageError(f"{path}: the directory holds no {', '.join(_SUFFIXES)} file")
        for file in files:
            yield str(file), file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {path}: it is not UTF-8 text (byte {error.start})") from error


class _Loader(yaml.SafeLoader):
    """YAML as the API server's libraries read it: no dates, no base-60 numbers, `1e3` is a number."""


_REPLACED = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


def _parse_yaml(text: str, *, source: str) -> Iterator[tuple[int, object]]:
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node.start_mark.line + 1, loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise UsageError(f"{where}: not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{source}: not valid YAML: {' '.join(str(error).split())}") from error


def _parse_json(text: str) -> list[tuple[int, object]] | None:
    """The values of a JSON stream; None where the text is none (it may be YAML, of which JSON is nearly a part)."""
    decoder, position, found = json.JSONDecoder(), 0, []
    text = text.rstrip()
    if not text.lstrip().startswith("{"):
        return None
    try:
        while position < len(text):
            while text[position].isspace():
                position += 1
            line = text.count("\n", 0, position) + 1
            value, position = decoder.raw_decode(text, position)
            found.append((line, value))
    except (ValueError, RecursionError):
        return None
    return found


def _plain(value: Any) -> Any:
    """The same with text keys; raises ValueError for what JSON cannot say."""
    if isinstance(value, dict):
        return {_key(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"a value of kind {type(value).__name__} has no place in a Kubernetes object")


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _name(value: object) -> str:
    return "a list" if isinstance(value, list) else "text" if isinstance(value, str) else str(value)
