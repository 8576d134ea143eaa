"""A directory of certificates changes as a whole, and its keys are private."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from pathlib import Path

import pytest

from app.certs import folder
from app.certs.folder import DATA, make, read_files, write_files
from app.certs.issuing import serving_names
from app.errors import UsageError
from app.serving.tls import Pair


def pair(mark: int) -> dict[str, bytes]:
    return {"tls.crt": b"%d" % mark * 5000, "tls.key": b"%d" % mark * 5000}


def test_what_is_written_is_read(tmp_path) -> None:
    directory = tmp_path / "new" / "certs"
    write_files(directory, pair(1))
    assert read_files(directory) == pair(1)
    assert (directory / "tls.crt").read_bytes() == pair(1)["tls.crt"]


def test_keys_are_for_their_owner_alone_whatever_the_umask(tmp_path) -> None:
    before = os.umask(0)
    try:
        write_files(tmp_path, pair(1))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "tls.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "tls.crt").stat().st_mode) == 0o644


def test_a_reader_never_meets_two_generations(tmp_path) -> None:
    """A writer replaces the set again and again; every set that is read is of one generation."""
    write_files(tmp_path, pair(0))
    stop = threading.Event()

    def write() -> None:
        mark = 0
        while not stop.is_set():
            mark = (mark + 1) % 10
            write_files(tmp_path, pair(mark))

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        seen = set()
        reads = 0
        # On a busy machine the writers may get their turn late: go on until the reader has met some of their work.
        while reads < 300 or (len(seen) < 2 and reads < 100_000):
            reads += 1
            files = read_files(tmp_path)
            assert files["tls.crt"] == files["tls.key"]
            assert len(files["tls.crt"]) == 5000
            seen.add(files["tls.crt"][:1])
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert len(seen) > 1
    assert len(list(tmp_path.glob("..berth-*"))) == 2  # the current generation and the one before


def test_a_reader_that_resolved_a_folder_in_removal_reads_the_current_one(tmp_path, monkeypatch) -> None:
    """However far the removal is: with one file left, and with none."""
    write_files(tmp_path, pair(1))
    old = (tmp_path / DATA).readlink()
    resolve, remove = folder._target, shutil.rmtree
    read = []

    def late_reader() -> dict[str, bytes]:
        resolved = iter([str(old)])
        monkeypatch.setattr(folder, "_target", lambda directory: next(resolved, None) or resolve(directory))
        return read_files(tmp_path)

    def slowly(folder: Path) -> None:
        (folder / "tls.key").unlink()
        read.append(late_reader())
        remove(folder)
        read.append(late_reader())

    monkeypatch.setattr(shutil, "rmtree", slowly)
    write_files(tmp_path, pair(2))
    assert not read
    write_files(tmp_path, pair(3))
    assert read == [pair(3), pair(3)]


def test_a_link_to_nothing_holds_no_files(tmp_path) -> None:
    write_files(tmp_path, pair(1))
    shutil.rmtree(tmp_path / (tmp_path / DATA).readlink())
    assert read_files(tmp_path) == {}
    write_files(tmp_path, pair(2))
    assert read_files(tmp_path) == pair(2)


def test_plain_files_are_taken_over(tmp_path) -> None:
    """What another tool wrote under our names is replaced; its other files stay."""
    (tmp_path / "tls.crt").write_bytes(b"old")
    (tmp_path / "notes.txt").write_text("mine")
    assert read_files(tmp_path) == {"tls.crt": b"old"}
    write_files(tmp_path, pair(1))
    assert read_files(tmp_path) == pair(1)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_file_that_left_the_set_is_gone(tmp_path) -> None:
    write_files(tmp_path, pair(1) | {"client-a.crt": b"a"})
    write_files(tmp_path, pair(2))
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == ["tls.crt", "tls.key"]


def test_an_absent_directory_holds_nothing(tmp_path) -> None:
    assert read_files(tmp_path / "absent") == {}


def test_a_place_that_cannot_be_written_is_a_users_mistake(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write certificates to"):
        write_files(tmp_path / "file" / "certs", pair(1))


def test_what_could_not_be_written_whole_is_taken_away(tmp_path) -> None:
    """As on a full disk; a file name too long for the file system fails in the same place."""
    write_files(tmp_path, pair(1))
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(UsageError, match="File name too long"):
        write_files(tmp_path, pair(2) | {"x" * 300: b""})
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert read_files(tmp_path) == pair(1)


def test_the_webhook_reads_the_layout(tmp_path, now) -> None:
    """The server's own reader takes the pair through the links."""
    files = make({}, names=serving_names(), now=now)
    write_files(tmp_path, files)
    assert Pair.read(tmp_path / "tls.crt", tmp_path / "tls.key").certificate == files["tls.crt"]
