"""Keeps a set of certificate files in a directory so that no reader meets a half-written set.

The layout is the one that the kubelet gives mounted Secrets: files live in a fresh folder, `..data` is a symbolic
link to it, `tls.crt` and its peers are links through `..data`. One rename of that link changes every file at once.
Who opens certificate and key by name, one after the other, can still straddle the rename; `read_files` resolves the
link once and cannot. The folder before the current one is kept, so a reader that resolved it can finish.
Knows nothing about what is in the files but that `*.key` is private.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from app.errors import UsageError

DATA = "..data"
_GENERATION = "..berth-"
_READ_ATTEMPTS = 200


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Make `files` the whole set in `directory`, atomically; keys get mode 0600, the rest 0644.

    Writers exclude each other. Files that Berth did not write stay, unless they bear a name of the set. Raises
    UsageError where the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory):
            previous = _target(directory)
            generation = _write_generation(directory, files)
            _replace_link(directory / DATA, generation.name)
            for name in files:
                _show(directory, name)
            _hide_leftovers(directory, files)
            _drop_generations(directory, keep={generation.name, previous})
    except OSError as error:
        raise UsageError(f"cannot write certificates to {directory}: {error.strerror or error}") from error


def read_files(directory: Path) -> dict[str, bytes]:
    """The `*.crt` and `*.key` files of one generation, or the plain files where no Berth wrote; {} where none are.

    Raises UsageError where the directory or one of its files cannot be read.
    """
    for _ in range(_READ_ATTEMPTS):
        target = _target(directory)
        folder = directory / target
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix in {".crt", ".key"})
            files = {path.name: path.read_bytes() for path in paths}
            if folder.is_dir():
                return files
        except (FileNotFoundError, NotADirectoryError):
            if _target(directory) == target and not folder.is_dir():
                return {}
        except OSError as error:
            raise UsageError(f"cannot read certificates in {directory}: {error.strerror or error}") from error
        # Two generations went by between resolving and reading: resolve again.
    raise UsageError(f"cannot read certificates in {directory}: its files keep changing")


def _target(directory: Path) -> str:
    """The name of the current generation's folder, "" where there is none."""
    try:
        return str((directory / DATA).readlink())
    except OSError:
        return ""


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_generation(directory: Path, files: Mapping[str, bytes]) -> Path:
    generation = Path(tempfile.mkdtemp(prefix=_GENERATION, dir=directory))
    try:
        for name, content in files.items():
            _write_file(generation / name, content, mode=0o600 if name.endswith(".key") else 0o644)
        generation.chmod(0o755)  # mkdtemp's 0700 would hide the certificates too; the keys have modes of their own
    except OSError:
        # On a full disk every try would leave more behind, and a half is of no use to anybody.
        shutil.rmtree(generation, ignore_errors=True)
        raise
    return generation


def _write_file(path: Path, content: bytes, *, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), mode)  # whatever the umask says
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _replace_link(link: Path, target: str) -> None:
    fresh = link.with_name(f"{_GENERATION}link")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def _show(directory: Path, name: str) -> None:
    link, target = directory / name, f"{DATA}/{name}"
    if not link.is_symlink() or str(link.readlink()) != target:
        _replace_link(link, target)


def _hide_leftovers(directory: Path, files: Mapping[str, bytes]) -> None:
    for link in directory.iterdir():
        if link.is_symlink() and link.name not in files and str(link.readlink()) == f"{DATA}/{link.name}":
            link.unlink()


def _drop_generations(directory: Path, *, keep: set[str]) -> None:
    for folder in directory.glob(f"{_GENERATION}*"):
        if folder.name not in keep and folder.is_dir() and not folder.is_symlink():
            # A reader that has resolved its name must find the whole folder or none.
            shutil.rmtree(folder.rename(f"{folder}.gone"))
