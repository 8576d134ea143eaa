"""Reads Kubernetes objects from YAML and JSON text: several documents, Lists of any kind, faults with their place.

What comes out is JSON, as with the API server's own tools: dates stay text, keys are strings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from app.errors import UsageError
from app.kube.versions import as_read
from app.text import printable
from app.wire import JSON
from app.yaml_documents import YamlError, documents_in, text_in

SUFFIXES = (".yaml", ".yml", ".json")
MOST_BYTES = 128 * 1024 * 1024
"""Of one file or stream: a device may never end."""


class DocumentError(UsageError):
    """A file cannot be read; the message begins with `file:line:` where a line is known."""


Fault = Callable[[DocumentError], object]
"""What is done with an unreadable document, where the others are read."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object and its place: file (or "stdin") and the line it begins at."""

    source: str
    line: int
    content: JSON

    @property
    def place(self) -> str:
        return f"{self.source}:{self.line}"


def read_objects(path: Path, fault: Fault | None = None) -> list[JSON]:
    """The objects of one file, Lists unfolded. Raises `DocumentError`; with `fault` for an unreadable file alone."""
    documents = parse_documents(read_text(path), source=str(path), fault=fault)
    return [obj for document in documents for _, obj in unfold(document.content, document.place, fault)]


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
        return text_in(content)
    except UnicodeDecodeError as error:
        called = error.encoding.upper().removesuffix("-LE").removesuffix("-BE")
        raise DocumentError(f"cannot read {name}: it is not {called} text (byte {error.start})") from error


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


def parse_documents(text: str, *, source: str, fault: Fault | None = None) -> list[Document]:
    """The objects in `text`, as they stand there; empty documents are left out.

    Raises `DocumentError` for anything else that is not an object, and for what is neither YAML nor JSON; with `fault`
    calls that instead, and reads the other documents.
    """
    documents = []
    for document in documents_in(text):
        if isinstance(document, YamlError):
            where = ":".join(str(part) for part in (source, document.line, document.column) if part)
            _report(f"{where}: not valid YAML: {document.problem}", fault)
            continue
        line, value = document
        if isinstance(value, dict):
            documents.append(Document(source, line, value))
        elif value is not None:
            got = "a list" if isinstance(value, list) else "text" if isinstance(value, str) else value
            _report(f"{source}:{line}: want an object with apiVersion and kind, got {got}", fault)
    return documents


def unfold(obj: JSON, place: str, fault: Fault | None = None) -> Iterator[tuple[str, JSON]]:
    """The object with its place, or the items of a List of any kind, each in the version that Berth reads.

    Raises `DocumentError` for one without a kind; with `fault` calls that instead, and goes on with the other items.
    """
    kind, items = obj.get("kind"), obj.get("items")
    if not isinstance(kind, str) or not kind:
        _report(f"{place}: want an object with apiVersion and kind, but kind is missing", fault)
        return
    if not kind.endswith("List") or not isinstance(items, list | None):
        yield place, as_read(obj)
        return
    for index, item in enumerate(items or []):
        where = f"{place} item {index + 1}"
        if not isinstance(item, dict):
            _report(f"{where}: want an object with apiVersion and kind", fault)
            continue
        if kind != "List":  # the items of a PodList need not repeat what they are
            item = {"apiVersion": obj.get("apiVersion"), "kind": kind.removesuffix("List")} | item  # noqa: PLW2901
        yield from unfold(item, where, fault)


def _report(problem: str, fault: Fault | None) -> None:
    error = DocumentError(problem)
    if fault is None:
        raise error
    fault(error)
