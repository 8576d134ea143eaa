"""Reads manifests from files, directories and standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from app.errors import UsageError
from app.kube.documents import SUFFIXES, Document, parse_documents, read_text


def read_documents(paths: Iterable[str]) -> list[Document]:
    """The objects in files, in directories (their *.yaml, *.yml and *.json) and, for "-", on standard input.

    Raises UsageError for what cannot be read, with file and line where there is one.
    """
    documents: list[Document] = []
    for path in dict.fromkeys(paths):
        if path == "-":
            documents += parse_documents(_standard_input(), source="stdin")
            continue
        for file in _files(Path(path)):
            documents += parse_documents(read_text(file), source=str(file))
    return documents


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    try:
        files = sorted(file for file in place.iterdir() if file.suffix in SUFFIXES and file.is_file())
    except OSError as error:
        raise UsageError(f"cannot read {place}: {error.strerror or error}") from error
    if not files:
        raise UsageError(f"{place}: the directory holds no {', '.join(SUFFIXES)} file")
    return files


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read standard input: it is not UTF-8 text (byte {error.start})") from error
