"""Reads Kubernetes objects from YAML and JSON text: several documents, Lists of any kind, faults with their place.

What comes out is JSON, as with the API server's own tools: dates stay text, keys are strings.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from app.errors import UsageError
from app.text import printable
from app.wire import EXACT_YAML, FAST_YAML, JSON, may_be_deep

SUFFIXES = (".yaml", ".yml", ".json")
MOST_BYTES = 128 * 1024 * 1024
"""Of one file or stream: a device may never end."""
_TEXT = re.compile(r"\S")


class DocumentError(UsageError):
    """A file cannot be read; the message begins with `file:line:` where a line is known."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object and its place: file (or "stdin") and the line it begins at."""

    source: str
    line: int
    content: JSON

    @property
    def place(self) -> str:
        return f"{self.source}:{self.line}"


def read_objects(path: Path) -> list[JSON]:
    """The objects of one file, Lists unfolded. Raises `DocumentError`, for an unreadable file too."""
    documents = parse_documents(read_text(path), source=str(path))
    return [obj for document in documents for _, obj in unfold(document.content, document.place)]


def read_text(path: Path) -> str:
    """What a file holds. Raises `DocumentError` where it cannot be read, is too large or is not a text."""
    try:
        with path.open("rb") as file:
            return read_stream(file, printable(str(path)))
    except OSError as error:
        raise DocumentError(f"cannot read {printable(str(path))}: {error.strerror or error}") from error


def read_stream(stream: BinaryIO, name: str) -> str:
    """What comes out of a stream, of `MOST_BYTES` at most. Raises `DocumentError` and OSError."""
    content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise DocumentError(f"cannot read {name}: it has more than {MOST_BYTES >> 20} MiB")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(f"cannot read {name}: it is not UTF-8 text (byte {error.start})") from error


def entries_below(
    directory: Path, *, deep: bool = True, fault: Callable[[str, OSError], None] | None = None
) -> Iterator[os.DirEntry[str]]:
    """Everything in a directory that is not hidden, and with `deep` in the directories below it, but for these.

    A link to a directory is followed once. Raises OSError for a directory that cannot be read; with `fault` only for
    the first, and calls that for the others.
    """
    waiting, seen = [str(directory)], set()
    while waiting:
        place = waiting.pop()
        try:
            stat = os.stat(place)  # noqa: PTH116  a path of os.scandir
            if (stat.st_dev, stat.st_ino) in seen:  # a link that leads back up
                continue
            seen.add((stat.st_dev, stat.st_ino))
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if deep and _holds(entry.is_dir):
                        waiting.append(entry.path)
                    else:
                        yield entry
        except OSError as error:
            if fault is None or len(seen) <= 1:
                raise
            fault(place, error)


def is_manifest_file(entry: os.DirEntry[str]) -> bool:
    """Whether its name ends as those of manifests do, and it is a file or a link to one."""
    return entry.name.endswith(SUFFIXES) and _holds(entry.is_file)


def _holds(question: Callable[[], bool]) -> bool:
    """What an entry of a directory answers; False for a link that leads to itself."""
    try:
        return question()
    except OSError:
        return False


def parse_documents(text: str, *, source: str) -> list[Document]:
    """The objects in `text`, as they stand there; empty documents are left out.

    Raises `DocumentError` for anything else that is not an object, and for what is neither YAML nor JSON.
    """
    found = _parse_json(text)
    # Written out, a value has no more parts than the text has characters.
    documents, parts = [], iter(range(10 * len(text) + 1000))
    for line, content in _parse_yaml(text, source=source) if found is None else found:
        if content is None:
            continue
        if not isinstance(content, dict):
            got = "a list" if isinstance(content, list) else "text" if isinstance(content, str) else content
            raise DocumentError(f"{source}:{line}: want an object with apiVersion and kind, got {got}")
        try:
            content = _plain(content, parts)  # noqa: PLW2901
        except (ValueError, RecursionError) as error:
            raise DocumentError(f"{source}:{line}: {error}") from error
        documents.append(Document(source, line, content))
    return documents


def unfold(obj: JSON, place: str) -> Iterator[tuple[str, JSON]]:
    """The object with its place, or the items of a List of any kind. Raises `DocumentError` for one without a kind."""
    kind, items = obj.get("kind"), obj.get("items")
    if not isinstance(kind, str) or not kind:
        raise DocumentError(f"{place}: want an object with apiVersion and kind, but kind is missing")
    if not kind.endswith("List") or not isinstance(items, list | None):
        yield place, obj
        return
    for index, item in enumerate(items or []):
        where = f"{place} item {index + 1}"
        if not isinstance(item, dict):
            raise DocumentError(f"{where}: want an object with apiVersion and kind")
        if kind != "List":  # the items of a PodList need not repeat what they are
            item = {"apiVersion": obj.get("apiVersion"), "kind": kind.removesuffix("List")} | item  # noqa: PLW2901
        yield from unfold(item, where)


_INT, _FLOAT, _DATE = (f"tag:yaml.org,2002:{name}" for name in ("int", "float", "timestamp"))
_AN_INT = re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
_A_FLOAT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")


def _kubernetes(base: Any) -> Any:
    """A loader of YAML as the API server's libraries read it: no dates, no base-60 numbers, `1e3` is a number."""
    kept = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_INT, _FLOAT, _DATE)]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    loader: Any = type("Loader", (base,), {"yaml_implicit_resolvers": kept})
    loader.add_implicit_resolver(_INT, _AN_INT, list("-+0123456789"))
    loader.add_implicit_resolver(_FLOAT, _A_FLOAT, list("-+.0123456789"))
    return loader


_FAST, _EXACT = _kubernetes(FAST_YAML), _kubernetes(EXACT_YAML)


def load_yaml(text: str) -> Any:
    """One document as the API server's libraries read it. Raises YAMLError, ValueError or RecursionError."""
    return yaml.load(text, Loader=_EXACT if may_be_deep(text) else _FAST)  # noqa: S506  safe ones


def _parse_yaml(text: str, *, source: str) -> list[tuple[int, object]]:
    """The documents, each with its line. What cannot be read is read again by the loader that knows the place."""
    if not may_be_deep(text):
        with contextlib.suppress(yaml.YAMLError, ValueError):
            return list(_documents(_FAST(text)))
    try:
        return list(_documents(_EXACT(text)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise DocumentError(f"{where}: not valid YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(f"{source}:{line}: not valid YAML: a character that it does not allow") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DocumentError(f"{source}: not valid YAML: {' '.join(str(error).split())}") from error


def _documents(loader: Any) -> Iterator[tuple[int, object]]:
    while loader.check_node():
        node = loader.get_node()
        if node is not None:
            yield node.start_mark.line + 1, loader.construct_document(node)


def _parse_json(text: str) -> list[tuple[int, object]] | None:
    """The values of a JSON stream; None where the text is none (it may be YAML, of which JSON is nearly a part)."""
    decoder, position, line, found = json.JSONDecoder(), 0, 1, []
    if not text.lstrip().startswith("{"):
        return None
    try:
        while start := _TEXT.search(text, position):
            line += text.count("\n", position, start.start())
            value, position = decoder.raw_decode(text, start.start())
            found.append((line, value))
            line += text.count("\n", start.start(), position)
    except (ValueError, RecursionError):
        return None
    return found


def _plain(value: Any, parts: Iterator[int]) -> Any:
    """Copies a YAML value into a JSON one: text keys, no aliases. Raises ValueError for what JSON cannot say.

    `parts` is used up by what aliases of aliases, which can stand for any number of values, make too large.
    """
    if next(parts, None) is None:
        raise ValueError("aliases make the document many times larger than its text: write it out")
    if isinstance(value, dict):
        return {_key(key): _plain(member, parts) for key, member in value.items()}
    if isinstance(value, list):
        return [_plain(item, parts) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"a value of kind {type(value).__name__} has no place in a Kubernetes object")


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
