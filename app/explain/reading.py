"""Reads manifests from files, directories, standard input and kustomizations, and says what it skips.

What `kubectl kustomize` builds has bounds for its time and its output.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from app.errors import UsageError
from app.kube.documents import (
    MOST_BYTES,
    SUFFIXES,
    Document,
    DocumentError,
    entries_below,
    is_manifest_file,
    parse_documents,
    read_stream,
    read_text,
    unfold,
)
from app.text import MESSAGE, one_line, printable
from app.wire import JSON
from app.yaml_documents import text_in

MOST_ENTRIES = 20_000
"""Of one directory and those below it."""
_NAMED = 5
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_SECONDS = 120.0
"""Kustomizations may name repositories, which are fetched first."""
_MOST_ERRORS = 64 * 1024


@dataclass(slots=True)
class Source:
    """What was read: objects with their places, Lists unfolded.

    `skipped` has a line for each directory of which files were left out, `faults` one for each document that cannot be
    read, and for each file of a directory that looks like a manifest and cannot be read.
    """

    objects: list[tuple[str, JSON]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def read_all(paths: Iterable[str], kustomizations: Iterable[str] = (), *, recursive: bool = False) -> Source:
    """The objects of files, of directories, of standard input ("-"), and those that kubectl builds.

    Raises UsageError for what is named and cannot be read, or has nothing but documents that cannot be read.
    """
    source, directories = Source(), False
    for path in dict.fromkeys(paths):
        if path == "-":
            _add(source, _standard_input(), "stdin")
        elif (place := Path(path)).is_dir():
            directories = True
            _read_directory(source, place, recursive=recursive)
        else:
            _add(source, read_text(place), printable(path))
    for path in dict.fromkeys(kustomizations):
        _add(source, build(path), f"kustomize {printable(path)}")
    if source.faults and not (source.objects or directories):
        raise UsageError(source.faults[0])
    return source


def _add(source: Source, text: str, name: str) -> None:
    faults: list[DocumentError] = []
    documents = parse_documents(text, source=name, fault=faults.append)
    _unfold(source, documents, faults)
    source.faults += map(str, faults)


def _unfold(source: Source, documents: Iterable[Document], faults: list[DocumentError]) -> None:
    for document in documents:
        source.objects += unfold(document.content, document.place, faults.append)


def _read_directory(source: Source, directory: Path, *, recursive: bool) -> None:
    entries = _entries(source, directory, recursive=recursive)
    files = [entry for entry in entries if is_manifest_file(entry)]
    if not files:
        below = "" if recursive or not any(map(_is_directory, entries)) else "; -R reads the directories below it"
        raise UsageError(f"{printable(str(directory))}: the directory holds no {', '.join(SUFFIXES)} file{below}")
    others = [entry.path for entry in entries if not is_manifest_file(entry) and not _is_directory(entry)]
    for file in files:
        path = Path(file.path)
        faults: list[DocumentError] = []
        try:
            documents = parse_documents(read_text(path), source=printable(str(path)), fault=faults.append)
            if any("kind" in document.content for document in documents):
                _unfold(source, documents, faults)
            elif not faults:
                others.append(file.path)
        except DocumentError as error:
            faults.append(error)
        source.faults += map(str, faults)
    if note := _left_out(directory, entries, others):
        source.skipped.append(f"{printable(str(directory))}: {note}")


def _left_out(directory: Path, entries: list[os.DirEntry[str]], others: list[str]) -> str:
    """What is said of directories, of the files `others`, and of kustomizations."""
    folders = sum(map(_is_directory, entries))
    parts = [_named(directory, others)] if others else []
    parts += [f"{folders} director{'y' if folders == 1 else 'ies'} (-R reads them)"] if folders else []
    notes = [f"skipped {' and '.join(parts)}"] if parts else []
    if places := sorted(str(Path(entry.path).parent) for entry in entries if entry.name in _KUSTOMIZATIONS):
        notes.append(f"-k {printable(places[0])} builds what the kustomization says")
    return "; ".join(notes)


def _entries(source: Source, directory: Path, *, recursive: bool) -> list[os.DirEntry[str]]:
    """What is in the directory, by path; directories only where they are not read."""
    entries: list[os.DirEntry[str]] = []

    def fault(place: str, error: OSError) -> None:
        source.faults.append(f"cannot read {printable(place)}: {error.strerror or error}")

    try:
        for entry in entries_below(directory, deep=recursive, fault=fault):
            entries.append(entry)
            if len(entries) > MOST_ENTRIES:
                raise UsageError(f"{printable(str(directory))}: more than {MOST_ENTRIES} files: name fewer directories")
    except OSError as error:
        raise UsageError(f"cannot read {printable(str(directory))}: {error.strerror or error}") from error
    return sorted(entries, key=lambda entry: entry.path)


def _named(directory: Path, paths: list[str]) -> str:
    """How many files, and the names of the first."""
    names = [printable(os.path.relpath(path, directory)) for path in sorted(paths)]
    shown = ", ".join([*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])])
    return (
        f"1 file that is no manifest ({shown})"
        if len(names) == 1
        else (f"{len(names)} files that are no manifests ({shown})")
    )


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _standard_input() -> str:
    return read_stream(sys.stdin.buffer, "standard input")


def build(directory: str, *, seconds: float = _SECONDS) -> str:
    """The manifests of a kustomization as YAML.

    Raises UsageError where there is no kubectl, or with what it writes where it fails.
    """
    kubectl = shutil.which("kubectl")
    shown = printable(directory)
    if kubectl is None:
        raise UsageError(f"-k {shown}: kubectl is not on PATH: install it, or pipe the manifests to berth explain -f -")
    try:
        status, out, errors = _run(kubectl, "kustomize", "--", directory, seconds=seconds)
    except TimeoutError:
        raise UsageError(f"-k {shown}: kubectl kustomize has not finished after {seconds:g} seconds") from None
    except OSError as error:
        raise UsageError(f"-k {shown}: cannot run kubectl: {error.strerror or error}") from error
    if len(out) > MOST_BYTES:
        raise UsageError(f"-k {shown}: kubectl kustomize writes more than {MOST_BYTES >> 20} MiB")
    if status:
        message = printable(one_line(errors.decode(errors="replace"), MESSAGE)) or f"exit status {status}"
        raise UsageError(f"-k {shown}: kubectl kustomize: {message}")
    try:
        return text_in(out)
    except UnicodeDecodeError as error:
        raise UsageError(f"-k {shown}: kubectl kustomize writes what is not UTF-8 text") from error


def _run(*command: str, seconds: float) -> tuple[int, bytes, bytes]:
    """Exit status and the beginning of both outputs. Nothing of it runs on afterwards.

    Raises TimeoutError. Ends where there is too much output; what is beyond the first errors is read and dropped, so
    that their writer does not wait.
    """
    deadline, out, errors = time.monotonic() + seconds, bytearray(), bytearray()
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(  # noqa: S603  kubectl of PATH, without a shell
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018  both are pipes
        selector.register(process.stdout, selectors.EVENT_READ, (out, MOST_BYTES + 1))
        selector.register(process.stderr, selectors.EVENT_READ, (errors, _MOST_ERRORS))
        try:
            while selector.get_map() and len(out) <= MOST_BYTES:
                for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
                    if not (chunk := os.read(key.fd, 1 << 16)):
                        selector.unregister(key.fileobj)
                    output, limit = key.data
                    output += chunk[: limit - len(output)]
                if time.monotonic() >= deadline:
                    raise TimeoutError
            status = 0 if selector.get_map() else process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise TimeoutError from error
        finally:
            _end(process.pid)
    return status, bytes(out), bytes(errors)


def _end(group: int) -> None:
    """End what kubectl has started, too."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
