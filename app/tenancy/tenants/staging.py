"""Writes secret files into a directory, all or nothing: they appear whole under its name or not at all.

Only their owner can read them. Knows nothing of what is in them; mistakes are those of `--out`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from app.errors import UsageError


def check_directory(directory: Path, files: Collection[str]) -> None:
    """Raise UsageError where `directory` holds what is none of `files` (relative paths) and would be lost."""
    try:
        foreign = next(_foreign(directory, files), "") if directory.exists() else ""
    except OSError as error:
        raise UsageError(f"--out: cannot read {directory}: {error.strerror or error}") from error
    if foreign:
        raise UsageError(f"--out: {directory} holds other files ({foreign}); name an empty or a new directory")


@contextlib.contextmanager
def staged(files: Mapping[str, bytes], directory: Path) -> Iterator[None]:
    """Write the files aside; they take their place when the block ends, and vanish where the block raises.

    So what can fail on the disk fails before the block changes anything else. What `directory` held goes; the names
    may have folders in them. Raises UsageError.
    """
    check_directory(directory, files.keys())
    place = directory.absolute()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    except OSError as error:
        raise UsageError(f"--out: cannot write to {place.parent}: {error.strerror or error}") from error
    try:
        fresh, old = staging / "new", staging / "old"
        with _told(directory):
            _write(fresh, files)
        yield
        with _told(directory):
            if place.exists():
                place.rename(old)
            fresh.rename(place)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _foreign(directory: Path, files: Collection[str], prefix: str = "") -> Iterator[str]:
    for entry in sorted(directory.iterdir()):
        name = prefix + entry.name
        if any(file.startswith(f"{name}/") for file in files) and entry.is_dir() and not entry.is_symlink():
            yield from _foreign(entry, files, f"{name}/")
        elif name not in files:
            yield name


@contextlib.contextmanager
def _told(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"--out: cannot write {directory}: {error.strerror or error}") from error


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
