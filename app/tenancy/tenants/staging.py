"""Writes secret files into a directory of `--out`, all or nothing. Only the owner can read them; git ignores them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from app.errors import UsageError

GIT_IGNORE = ".gitignore"
"""Beside the files, so that a bundle in a clone of any repository is never committed with its key."""
_IGNORE_ALL = b"*\n"


def check_directory(directory: Path, files: Collection[str]) -> None:
    """Raise UsageError where `directory` holds other files than these relative paths, which would be lost."""
    with _usage(f"read {directory}"):
        foreign = next(_foreign(directory, files), "") if directory.exists() else ""
    if foreign:
        raise UsageError(f"--out: {directory} holds other files ({foreign}); name an empty or a new directory")


@contextlib.contextmanager
def staged(files: Mapping[str, bytes], directory: Path) -> Iterator[None]:
    """Write the files aside; they replace what `directory` holds when the block ends. They are removed if it raises.

    So an error of the disk comes before the block changes anything else. Names may have folders. Raises UsageError.
    """
    check_directory(directory, files.keys())
    place = directory.absolute()
    with _usage(f"write to {place.parent}"):
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent, ignore_cleanup_errors=True)
    with aside as staging:
        fresh, old = Path(staging, "new"), Path(staging, "old")
        with _usage(f"write {directory}"):
            _write(fresh, {**files, GIT_IGNORE: _IGNORE_ALL})
        yield
        with _usage(f"write {directory}"):
            if place.exists():
                place.rename(old)
            fresh.rename(place)


def _foreign(directory: Path, files: Collection[str], prefix: str = "") -> Iterator[str]:
    for entry in sorted(directory.iterdir()):
        name = prefix + entry.name
        if any(file.startswith(f"{name}/") for file in files) and entry.is_dir() and not entry.is_symlink():
            yield from _foreign(entry, files, f"{name}/")
        elif name not in files and not (name == GIT_IGNORE and entry.is_file() and entry.read_bytes() == _IGNORE_ALL):
            yield name


@contextlib.contextmanager
def _usage(what: str) -> Iterator[None]:
    """Raise UsageError, which names `--out`, for an error of the disk."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"--out: cannot {what}: {error.strerror or error}") from error


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)  # whatever the umask says
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
